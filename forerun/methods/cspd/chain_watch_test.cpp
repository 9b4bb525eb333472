// The counterfactual test for chains: it passes drafts of a model and detects mutants.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "forerun/core/chain_sample.h"
#include "forerun/core/speculate.h"
#include "forerun/methods/diffusion/decision_watch.h"
#include "tests/support/mixture_chain.h"

namespace forerun {
namespace {

using support::MixtureChain;
using support::MixtureDrafter;
using support::MixtureOptions;
using support::MixtureTarget;

constexpr std::size_t kTokens = 8, kInner = 6;
constexpr std::uint64_t kSeed = 8;

// MUTANT: drafts nothing where the place after next would be drawn with much noise.
struct Choosy {
  MixtureDrafter inner;
  std::vector<ChainDraft> propose(std::span<ChainSample* const> samples) {
    std::vector<ChainDraft> out = inner.propose(samples);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Latent own(2);
      samples[i]->key().at(kInner).fill_normal(Purpose::kTarget, own);
      if (std::abs(own[0]) > 0.7F) out[i] = {};
    }
    return out;
  }
  template <class... Seen>
  void observe(const Seen&...) const {}
};

// MUTANT: a mean that leans by the size of its own noise.
struct Leaning {
  MixtureDrafter inner;
  std::vector<ChainDraft> propose(std::span<ChainSample* const> samples) {
    std::vector<ChainDraft> out = inner.propose(samples);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      for (std::size_t j = 0; j < out[i].size(); ++j) {
        for (std::size_t k = 0; k < kInner; ++k) {
          Latent own(2);
          samples[i]->key_at(samples[i]->step() + j).at(k + 1).fill_normal(Purpose::kTarget, own);
          out[i].paths[j].means[k][0] += std::abs(own[0]) > 0.67F ? 0.1F : -0.1F;
        }
      }
    }
    return out;
  }
  template <class... Seen>
  void observe(const Seen&...) const {}
};

const MixtureOptions kTarget{.dim = 2, .pull = 0.6}, kDraft{.dim = 2, .bias = 0.2};

template <class Drafter>
void run(Rule rule, std::uint32_t request, std::optional<std::size_t> resampled,
         DecisionWatch& watch) {
  MixtureChain target(kTarget), draft(kDraft);
  MixtureTarget loop_target{&target};
  Drafter drafter{{&draft, 3}};
  std::vector<ChainSample> samples;
  samples.emplace_back(
      ChainSample::Options{.seed = kSeed, .request = request, .tokens = kTokens, .id = request});
  if (resampled) samples[0].resample_from(*resampled / kInner, *resampled % kInner, ~kSeed);
  const ChainRule chain_rule(rule);
  speculate<ChainSample>(
      samples, loop_target, drafter, chain_rule, [] { return true; }, watch);
}

template <class Drafter>
std::size_t violations(Rule rule) {
  constexpr std::uint32_t kSamples = 12;
  std::size_t out = 0;
  const auto places = seeded_places(kSeed, 0, kSamples, kTokens * kInner, 60);
  DecisionWatch original(places, kInner);
  for (std::uint32_t i = 0; i < kSamples; ++i) run<Drafter>(rule, i, std::nullopt, original);
  EXPECT_TRUE(original.complete());
  for (const auto& [place, decision] : original.decisions()) {
    DecisionWatch watch({place}, kInner);
    run<Drafter>(rule, place.first, place.second, watch);
    out += decision.same(watch.decisions().at(place)) ? 0 : 1;
  }
  return out;
}

struct Honest : MixtureDrafter {
  explicit Honest(MixtureDrafter d) : MixtureDrafter(d) {}
};

TEST(ChainWatch, DraftsOfAModelDependOnEarlierNoiseOnly) {
  EXPECT_EQ(violations<Honest>(Rule::kStepwise), 0U);
  EXPECT_EQ(violations<Honest>(Rule::kPath), 0U);
}

TEST(ChainWatch, DetectsDraftsThatKnowTheirNoise) {
  EXPECT_GT(violations<Choosy>(Rule::kStepwise), 5U);
  EXPECT_GT(violations<Leaning>(Rule::kStepwise), 5U);
}

}  // namespace
}  // namespace forerun
