// A clock that depends on discarded states must not affect the number of drafts.
#include "forerun/methods/held_costs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "forerun/core/rng_key.h"
#include "forerun/core/speculate.h"
#include "forerun/methods/adaptive_drafter.h"
#include "forerun/methods/diffusion/decision_watch.h"

namespace forerun {
namespace {

constexpr std::size_t kSteps = 80;

// The same without HeldCosts.
struct EagerSample : LatentSample {
  using LatentSample::LatentSample;
  static constexpr bool kReusesNoise = false;
};

Latent mean_after(const Latent& x) { return {0.9F * x[0]}; }

// x' = 0.9 x + noise.
struct Chain {
  struct Verified {
    std::vector<std::vector<Latent>> means;
    Gaussian at(std::size_t sample, std::size_t step) const { return {means[sample][step], 1.0}; }
  };
  template <class Sample>
  Verified verify(std::span<Sample* const> samples, const std::vector<LatentDraft>& drafts) const {
    Verified out;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      out.means.push_back({mean_after(samples[i]->state())});
      for (const Latent& x : drafts[i].values) out.means.back().push_back(mean_after(x));
    }
    return out;
  }
  template <class Samples>
  void keep(Samples, const std::vector<LatentDraft>&, std::span<const Outcome>) const {}
};

// Errs by 0.7 sigma: three of four drafts are kept.
struct Ahead {
  template <class Sample>
  std::vector<LatentDraft> propose(std::span<Sample* const> samples,
                                   std::span<const std::size_t> lengths) const {
    std::vector<LatentDraft> drafts(samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Latent x = samples[i]->state();
      for (std::size_t j = 0; j < lengths[i]; ++j) {
        const Latent mean = {mean_after(x)[0] + 0.7F};
        x = Gaussian{mean, 1.0}.sample(Purpose::kTarget,
                                       samples[i]->key_at(samples[i]->step() + j));
        drafts[i].means.push_back(mean);
        drafts[i].values.push_back(x);
      }
    }
    return drafts;
  }
  template <class... Seen>
  void observe(const Seen&...) const {}
};

// A discarded state makes its pass slower or faster, depending on its noise.
template <class Round>
Timings hostile_clock(const Round& round) {
  double log_slow = 0.0, rows = 0.0;
  for (std::size_t i = 0; i < round.sequences.size(); ++i) {
    const auto& sample = *round.sequences[i];
    const std::size_t first = sample.step() - round.outcomes[i].emitted;
    rows += 1.0 + static_cast<double>(round.drafts[i].size());
    for (std::size_t k = sample.step(); k < first + round.drafts[i].size(); ++k) {
      Latent noise(1);
      sample.key_at(k).fill_normal(Purpose::kTarget, noise);
      log_slow += 0.5 * noise[0];
    }
  }
  return {.drafter = 1e-5, .target = 1e-3 * (1.0 + 0.1 * std::exp(log_slow) * rows)};
}

template <class Sample>
DecisionWatch run(std::uint64_t seed, std::set<DecisionWatch::Place> places,
                  std::size_t resampled_from) {
  std::vector<Sample> samples;
  for (std::uint32_t i = 0; i < 2; ++i) samples.emplace_back(seed, i, Latent{0.0F}, kSteps);
  samples[0].resample_from(resampled_from, seed + 1000);
  Chain target;
  AdaptiveDrafter<Ahead, Sample, LatentDraft> drafter(Ahead(), DraftLength(), 12);
  DecisionWatch watch(std::move(places));
  const auto learn = [&](const auto& round) { drafter.learn(round, hostile_clock(round)); };
  speculate<Sample>(
      samples, target, drafter, LatentRule(), [] { return true; }, watch, learn);
  return watch;
}

struct Found {
  int drafted = 0, violations = 0;
};

// For a sample's steps, each with its noise and that of later ones replaced.
template <class Sample>
Found counterfactuals(std::uint64_t seed) {
  std::set<DecisionWatch::Place> places;
  for (std::size_t k = 0; k < kSteps; ++k) places.emplace(0, k);
  const DecisionWatch original = run<Sample>(seed, places, SIZE_MAX);
  Found found;
  for (const auto& [place, decision] : original.decisions()) {
    const DecisionWatch again = run<Sample>(seed, {place}, place.second);
    found.drafted += decision.drafted ? 1 : 0;
    found.violations += decision.same(again.decisions().at(place)) ? 0 : 1;
  }
  return found;
}

TEST(HeldCosts, APlanDoesNotDependOnNoiseThatIsUsedAgain) {
  int drafted = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Found held = counterfactuals<LatentSample>(seed);
    EXPECT_EQ(held.violations, 0) << seed;
    drafted += held.drafted;
  }
  EXPECT_GT(drafted, 1600);  // half of the steps
}

// Without holding them back: about one step in 50 is decided differently.
TEST(HeldCosts, TheTestCatchesPlansByACurrentClock) {
  int violations = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    violations += counterfactuals<EagerSample>(seed).violations;
  }
  EXPECT_GT(violations, 20);
}

TEST(HeldCosts, AreReleasedInOrderWhenTheirSamplesHavePassed) {
  using TestRound = Round<LatentSample, LatentDraft, int>;
  LatentSample a(1, 0, {0.0F}, 10), b(1, 1, {0.0F}, 10);
  LatentSample* samples[] = {&a, &b};
  HeldCosts held;
  const auto round = [&](double seconds, std::uint32_t drafted_a, std::uint32_t emitted_a) {
    for (std::uint32_t i = 0; i < emitted_a; ++i) a.push({0.0F});
    b.push({0.0F});
    std::vector<LatentDraft> drafts(2);
    drafts[0].values.resize(drafted_a);
    const Outcome outcomes[] = {{.drafted = drafted_a, .emitted = emitted_a}, {.emitted = 1}};
    const int nothing = 0;
    held.add({.target_seconds = seconds},
             TestRound{samples, drafts, nothing, outcomes, {.target = seconds}});
    std::vector<double> out;
    for (const PassSeen& p : held.release(std::span<LatentSample* const>(samples))) {
      out.push_back(p.target_seconds);
    }
    return out;
  };
  EXPECT_EQ(round(1.0, 0, 1), std::vector<double>{1.0});         // nothing was drafted
  EXPECT_EQ(round(2.0, 4, 1), std::vector<double>{});            // to step 5, 2 are there
  EXPECT_EQ(round(3.0, 0, 1), std::vector<double>{});            // waits for the one before
  EXPECT_EQ(round(4.0, 3, 2), (std::vector<double>{2.0, 3.0}));  // step 5 is; this one goes to 6
  EXPECT_EQ(round(5.0, 2, 3), (std::vector<double>{4.0, 5.0}));  // all kept
}

}  // namespace
}  // namespace forerun
