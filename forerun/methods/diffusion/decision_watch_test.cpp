// The counterfactual test: it passes the drafters and detects mutants that z misses.
#include "forerun/methods/diffusion/decision_watch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "forerun/core/certificate.h"
#include "forerun/core/rng_key.h"
#include "forerun/methods/asd/asd_predictor.h"
#include "forerun/methods/diffusion/latent_drafter.h"
#include "forerun/methods/free/free_predictor.h"
#include "forerun/methods/frozen/frozen_predictor.h"
#include "tests/support/noisy_dit.h"

namespace forerun {
namespace {

constexpr std::uint64_t kWatchSeed = 21;
constexpr std::size_t kSteps = 40;

double sigma_of(const DitTarget& target, std::size_t step) {
  return target.schedule().step(static_cast<std::int64_t>(step)).sigma;
}

// MUTANT: a mean shifted along one axis by the size of that axis' own noise.
class LeaningPredictor final : public StepPredictor {
 public:
  explicit LeaningPredictor(const DitTarget& target) : inner_(target.schedule()), target_(target) {}
  void anchor(LatentMemory& memory, std::size_t step, const Latent& state, const at::Tensor& noise,
              const at::Tensor& feature) const override {
    inner_.anchor(memory, step, state, noise, feature);
  }
  std::vector<Latent> means(const LatentRows& rows,
                            std::span<LatentMemory* const> memories) const override {
    std::vector<Latent> out = inner_.means(rows, memories);
    for (std::size_t i = 0; i < out.size(); ++i) {
      Latent own(16);
      rows.samples[i]->key_at(rows.steps[i]).fill_normal(Purpose::kTarget, own);
      const double shift =
          (std::abs(own[0]) > 0.67F ? 0.8 : -0.8) * sigma_of(target_, rows.steps[i]);
      out[i][0] += static_cast<float>(shift);
    }
    return out;
  }

 private:
  AsdPredictor inner_;
  const DitTarget& target_;
};

// MUTANT, with `most` finite: stops before a step i where the draft of step i + 1 was off by more
// than `most` sigmas in the round before, which depends on the noise of i.
class Skipping {
 public:
  Skipping(LatentDrafter inner, const DitTarget& target, double most)
      : inner_(std::move(inner)), target_(&target), most_(most) {}

  std::vector<SequencePlan> plan(std::span<LatentSample* const> samples,
                                 std::span<const std::size_t> most,
                                 const DraftLength& control) const {
    std::vector<SequencePlan> plans = inner_.plan(samples, most, control);
    for (SequencePlan& p : plans) {
      const auto off = off_.find(p.id);
      if (off == off_.end()) continue;
      for (std::size_t j = 1; j < off->second.size(); ++j) {
        if (off->second[j] > most_) p.limit = std::min(p.limit, j - 1);
      }
    }
    return plans;
  }
  std::vector<LatentDraft> propose(std::span<LatentSample* const> samples,
                                   std::span<const std::size_t> lengths) {
    return inner_.propose(samples, lengths);
  }
  void observe(std::span<LatentSample* const> samples, std::span<const LatentDraft> drafts,
               const DitTarget::Verified& verified, std::span<const Outcome> outcomes) {
    inner_.observe(samples, drafts, verified, outcomes);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::vector<double>& off = off_[samples[i]->request()];
      off.clear();
      const std::size_t first = samples[i]->step() - outcomes[i].emitted;
      for (std::size_t j = outcomes[i].emitted; j < drafts[i].size(); ++j) {
        const Gaussian target = verified.at(i, j);
        double sum = 0.0;
        for (std::size_t d = 0; d < target.mean.size(); ++d) {
          sum += std::pow(drafts[i].means[j][d] - target.mean[d], 2.0);
        }
        off.push_back(std::sqrt(sum) / sigma_of(*target_, first + j));
      }
    }
  }

 private:
  LatentDrafter inner_;
  const DitTarget* target_;
  double most_;
  std::map<std::uint32_t, std::vector<double>> off_;  // by request: of its next transitions
};

using Make = std::function<std::shared_ptr<const StepPredictor>(DitTarget&)>;

struct Setting {
  Make make;
  double skip_above = INFINITY;
  TargetCalls calls = TargetCalls::kOne;
  std::uint32_t images = 4;
  bool reuse = true;
  LatentRule rule = {};
};

struct Run {
  DecisionWatch watch;
  CertificateReport report;
};

// Images from `first` on; the noise of the first is resampled.
Run run(const Setting& s, std::set<DecisionWatch::Place> places, std::uint32_t first,
        std::size_t resampled_from, const std::vector<std::uint32_t>& kept = {}) {
  const auto dit = std::make_shared<Dit>(testing::noisy_dit(testing::small_dit(4, 2)));
  const GuidedDit model(dit, {.scale = 1.5});
  const DdpmSchedule schedule({.steps = kSteps});
  const bool alone = resampled_from != SIZE_MAX;
  DitTarget target(model, schedule);
  LatentDrafter guesses(s.make(target), s.calls, target, s.reuse);
  AdaptiveDrafter<Skipping, LatentSample, LatentDraft> drafter(
      Skipping(std::move(guesses), target, s.skip_above), DraftLength({.adaptive = false}), 7);
  std::vector<LatentSample> samples;
  for (std::uint32_t i = first; i < (alone ? first + 1 : s.images); ++i) {
    samples.emplace_back(kWatchSeed, i, LatentSample::noise(kWatchSeed, i, 16), kSteps, true);
  }
  samples[0].resample_from(resampled_from, kWatchSeed + 1, kept);
  Run out{DecisionWatch(std::move(places)), {}};
  GaussianCertificate certificate;
  const auto judge = [&](const auto& round) {
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const LatentSample& sample = *round.sequences[i];
      const std::size_t begin = sample.step() - round.outcomes[i].emitted;
      for (std::size_t j = 0; j < round.outcomes[i].emitted; ++j) {
        const Gaussian law = round.verified.at(i, j);
        if (law.sigma == 0.0) continue;
        certificate.add(law, j < round.drafts[i].size() ? round.drafts[i].means[j] : Latent(),
                        sample.states()[begin + j + 1]);
      }
    }
  };
  speculate<LatentSample>(
      samples, target, drafter, s.rule, [&] { return !alone || !out.watch.complete(); }, out.watch,
      judge);
  out.report = certificate.report();
  return out;
}

std::size_t violations(const Setting& s, std::size_t count) {
  const auto places = seeded_places(kWatchSeed, 0, s.images, kSteps, count);
  EXPECT_GT(places.size(), count / 2);
  const Run original = run(s, places, 0, SIZE_MAX);
  EXPECT_TRUE(original.watch.complete());
  std::size_t found = 0;
  for (const auto& [place, decision] : original.watch.decisions()) {
    const Run again = run(s, {place}, place.first, place.second, decision.kept);
    found += decision.same(again.watch.decisions().at(place)) ? 0U : 1U;
  }
  return found;
}

const Make kWatchedAsd = [](DitTarget& t) { return std::make_shared<AsdPredictor>(t.schedule()); };
const Make kWatchedFrozen = [](DitTarget& t) {
  return std::make_shared<FrozenPredictor>(t.schedule());
};
const Make kWatchedFree = [](DitTarget& t) {
  auto n = std::make_shared<FreeNetwork>(free_from(t.model().model(), 2, true));
  for (const ModelWeight& w : weights(*n)) w.tensor->add_(0.02);
  return std::make_shared<FreePredictor>(GuidedFree(n), t);
};
const Make kWatchedLeaning = [](DitTarget& t) { return std::make_shared<LeaningPredictor>(t); };

TEST(DecisionWatch, DraftersDecideByEarlierNoiseAlone) {
  for (const Make& make : {kWatchedAsd, kWatchedFrozen, kWatchedFree}) {
    for (const TargetCalls calls : {TargetCalls::kOne, TargetCalls::kTwo}) {
      EXPECT_EQ(violations({.make = make, .calls = calls}, 24), 0U);
      EXPECT_EQ(violations({.make = make, .calls = calls, .rule = LatentRule::block()}, 24), 0U);
    }
  }
}

// Half of the drafted steps show it: with 24 of them it is missed once in a million runs.
TEST(DecisionWatch, CatchesAMeanThatLeansOnItsOwnNoise) {
  const Setting s{.make = kWatchedLeaning, .images = 16, .reuse = false};
  EXPECT_GE(violations(s, 24), 6U);
  EXPECT_TRUE(run(s, {}, 0, SIZE_MAX).report.passed());  // z, KS and energy miss it
  Setting block = s;
  block.rule = LatentRule::block();
  EXPECT_GE(violations(block, 24), 6U);
}

TEST(DecisionWatch, CatchesStepsThatAreSkippedByTheirNoise) {
  const Setting s{.make = kWatchedAsd, .skip_above = 2.7, .images = 16};
  EXPECT_GE(violations(s, 64), 3U);
  Setting block = s;
  block.rule = LatentRule::block();
  EXPECT_GE(violations(block, 64), 3U);
  EXPECT_TRUE(run(s, {}, 0, SIZE_MAX).report.passed());
}

TEST(DecisionWatch, ComparesBits) {
  const StepDecision a{.round = 1, .drafted = true, .mean = {std::nanf(""), 0.0F}};
  StepDecision b = a;
  EXPECT_TRUE(a.same(b));
  b.mean[1] = -0.0F;
  EXPECT_FALSE(a.same(b));
  b = a;
  b.round = 2;
  EXPECT_FALSE(a.same(b));
}

}  // namespace
}  // namespace forerun
