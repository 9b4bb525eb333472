#include "forerun/methods/diffusion/latent_drafter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "forerun/core/rng_key.h"
#include "tests/support/sampled_latents.h"

namespace forerun {
namespace {

using testing::ends;
using testing::kAsd;
using testing::kFree;
using testing::kFreeFrozen;
using testing::kFrozen;
using testing::kGuess;
using testing::kNone;
using testing::kSelf;
using testing::Make;
using testing::Sampled;
using testing::sampled;

// Output of a broken network: not a number, infinite, or larger than any state, in some coordinates
// or all.
class Garbage final : public StepPredictor {
 public:
  explicit Garbage(float value) : value_(value) {}
  void anchor(LatentMemory&, std::size_t, const Latent&, const at::Tensor&,
              const at::Tensor&) const override {}
  std::vector<Latent> means(const LatentRows& rows, std::span<LatentMemory* const>) const override {
    std::vector<Latent> out;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Latent mean = *rows.states[i];
      for (std::size_t d = 0; d < mean.size(); d += 1 + rows.steps[i] % 3) mean[d] = value_;
      out.push_back(std::move(mean));
    }
    return out;
  }

 private:
  float value_;
};

class Slots : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Slots, APerfectDrafterGivesThePlainImageBitForBit) {
  const std::size_t slots = GetParam();
  const Sampled plain = sampled(kNone, {});
  const Sampled one = sampled(kSelf, {.slots = slots});
  EXPECT_EQ(ends(one), ends(plain));
  // A first pass of one state, then full rounds.
  EXPECT_EQ(one.statistics.rounds, 3 * (1 + (39 + slots - 1) / slots));
  const Sampled two = sampled(kSelf, {.slots = slots, .calls = TargetCalls::kTwo});
  EXPECT_EQ(ends(two), ends(plain));
  EXPECT_EQ(ends(sampled(kSelf, {.slots = slots, .rule = LatentRule::block()})), ends(plain));
  EXPECT_EQ(two.statistics.rounds, 3 * ((40 + slots) / (slots + 1)));
}

INSTANTIATE_TEST_SUITE_P(Latents, Slots, ::testing::Values(1, 2, 3, 8, 32, 100));

// The number of drafts is chosen in each round; the outputs have the same law.
TEST(LatentDrafter, AsFarAsPaysIsAsExact) {
  const Sampled self = sampled(kSelf, {.slots = 16, .adaptive = true});
  const Sampled plain = sampled(nullptr, {});
  for (std::size_t i = 0; i < plain.samples.size(); ++i) {
    EXPECT_EQ(self.samples[i].state(), plain.samples[i].state());
  }
  EXPECT_LT(self.statistics.rounds, plain.statistics.rounds / 2);
  const Sampled asd = sampled(kAsd, {.slots = 16, .steps = 400, .images = 4, .adaptive = true});
  EXPECT_TRUE(asd.report.passed()) << asd.report.z;
  EXPECT_GT(asd.report.drafted, 500U);
  const Sampled block = sampled(
      kAsd,
      {.slots = 16, .steps = 400, .images = 4, .adaptive = true, .rule = LatentRule::block()});
  EXPECT_TRUE(block.report.passed()) << block.report.z;
}

// With one draft a round both rules use the same numbers alike.
TEST(LatentDrafter, ABlockOfOneDraftIsTheReflection) {
  EXPECT_EQ(ends(sampled(kFrozen, {.slots = 2, .rule = LatentRule::block()})),
            ends(sampled(kFrozen, {.slots = 2})));
}

TEST(LatentDrafter, AnImageDoesNotDependOnTheOthers) {
  const Sampled all = sampled(kAsd, {.images = 8});
  for (std::uint32_t n : {1U, 3U}) {
    const Sampled some = sampled(kAsd, {.images = n});
    for (std::uint32_t i = 0; i < n; ++i)
      EXPECT_EQ(some.samples[i].state(), all.samples[i].state());
  }
}

TEST(LatentDrafter, ARoundIsOnePassOfTheTarget) {
  for (const Make& make : {kAsd, kFrozen, kFree, kGuess}) {
    const Sampled s = sampled(make, {.images = 1});
    EXPECT_EQ(s.passes, s.statistics.rounds);
    const Sampled two = sampled(make, {.calls = TargetCalls::kTwo, .images = 1});
    // The last round may have no steps left to draft.
    EXPECT_GE(two.passes, 2 * two.statistics.rounds - 1);
    EXPECT_LE(two.passes, 2 * two.statistics.rounds);
  }
}

// Drafters start from the target's output for the last scored state.
class Recorder final : public StepPredictor {
 public:
  explicit Recorder(const DitTarget& target) : inner_(target.schedule()), target_(target) {}
  void anchor(LatentMemory& memory, std::size_t step, const Latent& state, const at::Tensor& noise,
              const at::Tensor& feature) const override {
    inner_.anchor(memory, step, state, noise, feature);
    anchors.emplace_back(step, state);
    const std::int64_t time = target_.schedule().step(static_cast<std::int64_t>(step)).time;
    const at::Tensor x = at::tensor(state, at::kFloat).view({1, 1, 4, 4});
    const DitOutput of = run_dit(target_.model().model(), x, at::full({1}, time, at::kLong),
                                 at::zeros({1}, at::kLong));
    EXPECT_LT((of.feature[0] - feature[0]).abs().max().item<double>(), 1e-4);
  }
  std::vector<Latent> means(const LatentRows& rows,
                            std::span<LatentMemory* const> memories) const override {
    return inner_.means(rows, memories);
  }
  mutable std::vector<std::pair<std::size_t, Latent>> anchors;

 private:
  AsdPredictor inner_;
  const DitTarget& target_;
};

TEST(LatentDrafter, DraftsBeginWithWhatTheTargetSaidOfTheLastState) {
  for (const TargetCalls calls : {TargetCalls::kOne, TargetCalls::kTwo}) {
    std::shared_ptr<Recorder> recorder;
    const Sampled s =
        sampled([&](DitTarget& t) { return recorder = std::make_shared<Recorder>(t); },
                {.calls = calls, .images = 1, .reuse = false});
    EXPECT_GT(recorder->anchors.size(), 5U);
    for (const auto& [step, state] : recorder->anchors) {
      EXPECT_EQ(state, s.samples[0].states()[step]) << step;
    }
  }
}

// Compares (state - mean) / sigma with the noise of the sample's position; reflected drafts have
// another, so it looks at rows that follow a draft.
class MeanRecorder final : public StepPredictor {
 public:
  explicit MeanRecorder(const DdpmSchedule& schedule) : schedule_(schedule), inner_(schedule) {}
  void anchor(LatentMemory& memory, std::size_t step, const Latent& state, const at::Tensor& noise,
              const at::Tensor& feature) const override {
    inner_.anchor(memory, step, state, noise, feature);
  }
  std::vector<Latent> means(const LatentRows& rows,
                            std::span<LatentMemory* const> memories) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t before = rows.steps[i] - 1;
      if (before < rows.samples[i]->step()) continue;  // the target's own output
      const double sigma = schedule_.step(static_cast<std::int64_t>(before)).sigma;
      Latent fresh(16);
      rows.samples[i]->key_at(before).fill_normal(Purpose::kTarget, fresh);
      for (std::size_t d = 0; d < 16; ++d) {
        // The remainder is float32's rounding of the state.
        const double x = (*rows.states[i])[d], mean = memories[i]->mean[d];
        const double off = std::abs(x - mean - sigma * fresh[d]);
        worst = std::max(worst, off / (std::abs(x) + std::abs(mean)));
      }
      ++seen;
    }
    return inner_.means(rows, memories);
  }
  mutable double worst = 0.0;
  mutable int seen = 0;

 private:
  const DdpmSchedule& schedule_;
  AsdPredictor inner_;
};

class Exact : public ::testing::TestWithParam<int> {
 protected:
  static const Make& drafter() {
    static const Make all[] = {kAsd, kFrozen, kFree, kFreeFrozen, kGuess};
    return all[GetParam()];
  }
};

// 60 images of 40 steps, both forms and rules. Exact rules fail by chance in 3 of 10,000 runs.
TEST_P(Exact, TheLawOfEveryStepIsTheTargets) {
  for (const TargetCalls calls : {TargetCalls::kOne, TargetCalls::kTwo}) {
    for (const bool reuse : {true, false}) {
      double tau = 0.0;
      for (const LatentRule& rule : {LatentRule(), LatentRule::block()}) {
        const Sampled s =
            sampled(drafter(), {.calls = calls, .images = 60, .rule = rule, .reuse = reuse});
        EXPECT_TRUE(s.report.passed())
            << s.report.z << " " << s.report.ks_p << " " << s.report.energy_p;
        EXPECT_GT(s.report.drafted, 700U);
        EXPECT_GT(s.statistics.tau(), tau - 0.1);  // block keeps no fewer
        tau = s.statistics.tau();
      }
    }
  }
}

// The same would fail if every draft were kept: the certificate detects these drafters.
TEST_P(Exact, KeepingEveryDraftIsCaught) {
  const Sampled s =
      sampled(drafter(), {.images = 60, .rule = LatentRule(std::vector<double>(40, 0.0))});
  EXPECT_FALSE(s.report.passed());
  EXPECT_GT(s.report.z, 4.0);
}

std::string name_of_drafter(const ::testing::TestParamInfo<int>& test) {
  const char* const names[] = {"Asd", "Frozen", "Free", "FreeFrozen", "Guess"};
  return names[test.param];
}
INSTANTIATE_TEST_SUITE_P(Latents, Exact, ::testing::Range(0, 5), name_of_drafter);

// The target's means plus a constant: one output of the target reveals the whole error.
class Biased final : public StepPredictor {
 public:
  explicit Biased(DitTarget& target) : target_(target) {}
  void anchor(LatentMemory&, std::size_t, const Latent&, const at::Tensor&,
              const at::Tensor&) const override {}
  std::vector<Latent> means(const LatentRows& rows, std::span<LatentMemory* const>) const override {
    std::vector<Latent> out = target_.score(rows).means;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double sigma = target_.schedule().step(static_cast<std::int64_t>(rows.steps[i])).sigma;
      for (float& x : out[i]) x += 0.4F * static_cast<float>(sigma);
    }
    return out;
  }

 private:
  DitTarget& target_;
};

TEST(LatentDrafter, AConstantErrorIsCorrectedAfterOneStep) {
  const Make biased = [](DitTarget& t) { return std::make_shared<Biased>(t); };
  for (const TargetCalls calls : {TargetCalls::kOne, TargetCalls::kTwo}) {
    const Sampled with = sampled(biased, {.slots = 8, .calls = calls, .images = 8});
    EXPECT_GT(with.reused, 50);
    EXPECT_LT(with.reused_distance, 1e-3);
    EXPECT_TRUE(with.report.passed()) << with.report.z;
    const Sampled without =
        sampled(biased, {.slots = 8, .calls = calls, .images = 8, .reuse = false});
    EXPECT_GT(without.reused_distance, 1.5);  // 0.4 sigma in each of 16 directions
  }
}

TEST_P(Exact, WhatWasSaidOfDiscardedStatesSavesRounds) {
  const Sampled with = sampled(drafter(), {.slots = 8, .images = 12}),
                without = sampled(drafter(), {.slots = 8, .images = 12, .reuse = false});
  EXPECT_GT(with.reused, 30);
  EXPECT_LT(with.statistics.rounds, without.statistics.rounds);
}

// Before a difference is learned, drafts are those of a constant predicted x0.
TEST(LatentDrafter, AFrozenImageWithNothingToAddIsAsd) {
  const Make untrained = [](DitTarget& t) {
    return std::make_shared<FreePredictor>(
        GuidedFree(std::make_shared<FreeNetwork>(free_from(t.model().model(), 2, true))), t);
  };
  const Sampled free = sampled(untrained, {.reuse = false}), asd = sampled(kAsd, {.reuse = false});
  EXPECT_EQ(free.statistics.rounds, asd.statistics.rounds);
  for (std::size_t i = 0; i < free.samples.size(); ++i) {
    for (std::size_t d = 0; d < 16; ++d) {
      EXPECT_NEAR(free.samples[i].state()[d], asd.samples[i].state()[d], 1e-3);
    }
  }
}

// The network's fresh noise is the noise with which the state was drawn.
TEST(LatentDrafter, MeansAreThoseOfTheStateThatIsReadNext) {
  std::shared_ptr<MeanRecorder> recorder;
  const Sampled s =
      sampled([&](DitTarget& t) { return recorder = std::make_shared<MeanRecorder>(t.schedule()); },
              {.images = 1});
  EXPECT_GT(recorder->seen, 20);
  EXPECT_LT(recorder->worst, 1e-7);
}

TEST(LatentDrafter, AGarbageDrafterCostsRoundsOnly) {
  const Sampled s = sampled(kGuess, {.steps = 100, .images = 4, .reuse = false});
  EXPECT_LT(s.statistics.tau(), 1.05);
  EXPECT_GE(s.statistics.tau(), 1.0);
}

TEST(LatentDrafter, ABrokenDrafterGivesThePlainImageBitForBit) {
  const Sampled plain = sampled(kNone, {});
  for (const float value : {std::nanf(""), INFINITY, -INFINITY, 3e38F, 1e9F}) {
    const Make garbage = [&](DitTarget&) { return std::make_shared<Garbage>(value); };
    for (const bool reuse : {true, false}) {
      const Sampled s = sampled(garbage, {.reuse = reuse});
      EXPECT_EQ(ends(s), ends(plain)) << value;
      EXPECT_TRUE(s.report.passed()) << value;
      EXPECT_EQ(ends(sampled(garbage, {.rule = LatentRule::block(), .reuse = reuse})), ends(plain));
    }
  }
}

TEST(LatentDrafter, AnyNumberOfStepsAndNoGuidance) {
  for (const std::int64_t steps : {1, 2, 10}) {
    for (const double guidance : {1.0, 4.0}) {
      for (const Make& make : {kAsd, kFrozen, kFree, kFreeFrozen}) {
        const Sampled s = sampled(make, {.slots = 32, .steps = steps, .guidance = guidance});
        for (const LatentSample& sample : s.samples) {
          EXPECT_EQ(sample.step(), static_cast<std::size_t>(steps));
          for (const float x : sample.state()) EXPECT_TRUE(std::isfinite(x));
        }
      }
    }
  }
}

}  // namespace
}  // namespace forerun
