#include "forerun/core/shared_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "forerun/core/couple.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/tests_of_fit.h"
#include "tests/support/laws.h"
#include "tests/support/samples.h"

namespace forerun {
namespace {

using support::counts_of;
using support::exact_probabilities;
using support::five_sigma;
using support::kForbidden;
using support::law_of;
using support::OwnedLaw;
using support::random_law;
using support::random_weights;

RngKey place_of_race(std::uint32_t i) {
  return {.seed = 23 + i / 1000, .request = 2, .position = i % 1000};
}

// The race over all tokens without its shortcut, from the documented random numbers.
NoiseDraw brute_force(const Categorical& law, const RngKey& key) {
  double best = std::numeric_limits<double>::infinity(), second = best;
  Token winner = -1;
  const std::vector<double> p = exact_probabilities(law);
  for (std::uint32_t t = 0; t < law.size(); ++t) {
    const std::uint32_t coarse = key.words(Purpose::kSharedNoise, t / 4)[t % 4];
    const std::uint32_t fine = key.words(Purpose::kSharedNoise, (1U << 27) | t)[0];
    const double time = -std::log1p(-RngKey::unit(coarse, fine)) / p[t];
    if (time < best) {
      second = best;
      best = time;
      winner = static_cast<Token>(t);
    } else if (time < second) {
      second = time;
    }
  }
  return {winner, std::log(second) - std::log(best)};
}

// Chi-square at 1e-5 for each of three laws: fails by chance below 1e-4.
TEST(SharedNoise, OutputFollowsTheLawOverSeedsAndPositions) {
  std::vector<OwnedLaw> laws;
  laws.push_back(law_of({0.5, 0.3, 0.0, 0.15, 0.05}));
  laws.push_back(random_law(1, 40, 1.5F));
  laws.push_back(OwnedLaw(std::vector<float>(8, 0.0F)));
  for (const OwnedLaw& law : laws) {
    const auto counts = counts_of(law.size(), support::samples(1000000), [&](std::uint32_t i) {
      return sample_shared_noise(law, place_of_race(i)).token;
    });
    EXPECT_GT(chi_square_p(exact_probabilities(law), counts), 1e-5);
  }
}

TEST(SharedNoise, ChiSquareRejectsARaceWithUniformsForExponentials) {
  const OwnedLaw law = law_of({0.5, 0.3, 0.15, 0.05});
  const auto p = exact_probabilities(law);
  const auto counts = counts_of(4, 100000, [&](std::uint32_t i) {
    const auto words = place_of_race(i).words(Purpose::kSharedNoise, 0);
    std::size_t best = 0;
    for (std::size_t t = 1; t < 4; ++t) best = words[t] / p[t] < words[best] / p[best] ? t : best;
    return best;
  });
  EXPECT_LT(chi_square_p(p, counts), 1e-9);
}

TEST(SharedNoise, WinnerAndMarginEqualTheRaceOverAllTokens) {
  for (const std::size_t vocab : {2U, 3U, 63U, 64U, 65U, 257U, 1000U}) {
    for (const float spread : {0.0F, 1.0F, 8.0F, 60.0F}) {
      const OwnedLaw law = random_law(vocab, vocab, spread);
      for (std::uint32_t i = 0; i < 60; ++i) {
        const NoiseDraw expected = brute_force(law, place_of_race(i));
        const NoiseDraw got = sample_shared_noise(law, place_of_race(i));
        ASSERT_EQ(got.token, expected.token) << vocab << " spread " << spread;
        ASSERT_NEAR(got.margin, expected.margin, 1e-9 * (1.0 + expected.margin));
        ASSERT_GE(got.margin, 0.0);
      }
    }
  }
}

TEST(SharedNoise, TheScoreIsWhatTheRaceMaximises) {
  const OwnedLaw law = random_law(9, 100, 2.0F);
  for (std::uint32_t i = 0; i < 50; ++i) {
    const NoiseDraw drawn = sample_shared_noise(law, place_of_race(i));
    const double best = shared_noise_score(law, drawn.token, place_of_race(i));
    double runner_up = -std::numeric_limits<double>::infinity();
    for (Token t = 0; t < 100; ++t) {
      if (t != drawn.token)
        runner_up = std::max(runner_up, shared_noise_score(law, t, place_of_race(i)));
    }
    ASSERT_NEAR(best - runner_up, drawn.margin, 1e-9);
  }
}

TEST(SharedNoise, LargeVocabulariesPeakedAndFlatEqualTheRaceOverAllTokens) {
  std::vector<float> peaked = random_weights(4, 49152, 1.0F);
  peaked[40000] = 25.0F;
  const OwnedLaw laws[] = {OwnedLaw(std::move(peaked)), OwnedLaw(std::vector<float>(49152, -3.0F)),
                           random_law(5, 49152, 4.0F)};
  for (const OwnedLaw& law : laws) {
    for (std::uint32_t i = 0; i < 10; ++i) {
      const NoiseDraw expected = brute_force(law, place_of_race(i));
      const NoiseDraw got = sample_shared_noise(law, place_of_race(i));
      ASSERT_EQ(got.token, expected.token);
      ASSERT_NEAR(got.margin, expected.margin, 1e-9 * (1.0 + expected.margin));
    }
  }
}

TEST(SharedNoise, NeverReturnsAForbiddenTokenAndIsSureOfALoneOne) {
  std::vector<float> w(300, kForbidden);
  w[130] = 0.0F;
  w[131] = -1e30F;  // more than 708 nats below: no weight in double
  const OwnedLaw alone(w);
  w[2] = w[299] = -2.0F;
  const OwnedLaw three(w);
  for (std::uint32_t i = 0; i < 5000; ++i) {
    ASSERT_EQ(sample_shared_noise(alone, place_of_race(i)).token, 130);
    ASSERT_EQ(sample_shared_noise(alone, place_of_race(i)).margin,
              std::numeric_limits<double>::infinity());
    const Token t = sample_shared_noise(three, place_of_race(i)).token;
    ASSERT_TRUE(t == 2 || t == 130 || t == 299) << t;
  }
}

TEST(SharedNoise, TheTextDependsOnSeedRequestPositionAndTargetAlone) {
  const OwnedLaw law = random_law(6, 50, 1.0F);
  int seeds = 0, requests = 0, positions = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const RngKey here = place_of_race(i);
    const Token plain = sample_shared_noise(law, here).token;
    for (const std::uint32_t round : {1U, 2U, 77U}) {
      const RngKey later{here.seed, here.request, round, here.position};
      ASSERT_EQ(sample_shared_noise(law, later).token, plain);
      for (Token drafted = 0; drafted < 50; drafted += 7) {
        const Coupled<Token> out = couple_shared_noise(law, drafted, later);
        ASSERT_EQ(out.value, plain);
        ASSERT_EQ(out.accepted, drafted == plain);
      }
      ASSERT_TRUE(couple_shared_noise(law, plain, later).accepted);
    }
    const auto differs = [&](const RngKey& other) {
      return sample_shared_noise(law, other).token != plain ? 1 : 0;
    };
    seeds += differs({here.seed + 1000, here.request, 0, here.position});
    requests += differs({here.seed, here.request + 1, 0, here.position});
    positions += differs({here.seed, here.request, 0, here.position + 1000});
  }
  for (const int different : {seeds, requests, positions}) EXPECT_GT(different, 150);
}

// Two laws that share noise agree with probability at least (1 - TV) / (1 + TV) (Daliri, Musco,
// Suresh 2024, arXiv:2408.07978); independent draws agree with probability sum p q. 5 sigma each:
// fails by chance below 2e-6.
TEST(SharedNoise, CloseLawsAgreeMoreOftenThanIndependentDraws) {
  const OwnedLaw p = random_law(1, 30, 1.0F);
  std::vector<float> near(p.law().log_weights().begin(), p.law().log_weights().end());
  const std::vector<float> bend = random_weights(2, 30, 0.3F);
  for (std::size_t i = 0; i < near.size(); ++i) near[i] += bend[i];
  const OwnedLaw q(std::move(near));
  constexpr int kTries = support::samples(100000);
  int shared = 0, independent = 0;
  for (std::uint32_t i = 0; i < kTries; ++i) {
    const RngKey key = place_of_race(i);
    shared += sample_shared_noise(p, key).token == sample_shared_noise(q, key).token;
    independent += p.law().sample(key.uniform(Purpose::kTarget)) ==
                   q.law().sample(key.uniform(Purpose::kDraft));
  }
  const double tv = total_variation(p, q);
  double by_chance = 0.0;
  for (Token t = 0; t < 30; ++t) by_chance += p.law().prob(t) * q.law().prob(t);
  const double bound = (1.0 - tv) / (1.0 + tv);
  EXPECT_GT(shared / double{kTries}, bound - five_sigma(bound, kTries));
  EXPECT_NEAR(independent / double{kTries}, by_chance, five_sigma(by_chance, kTries));
  EXPECT_GT(bound, 3.0 * by_chance);
}

}  // namespace
}  // namespace forerun
