#include "forerun/core/noise_odds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace forerun {
namespace {

double gumbel(std::mt19937& random) {
  return -std::log(-std::log(std::generate_canonical<double, 53>(random)));
}

// A token of probability p wins if its noise beats the largest score of the others, which is Gumbel
// noise at log(1 - p).
bool wins(double p, double noise, std::mt19937& random) {
  return std::log(p) + noise > std::log1p(-p) + gumbel(random);
}

TEST(NoiseOdds, MoreNoiseMakesATokenLikelierBeforeAnythingIsKnown) {
  const NoiseOdds odds;
  for (const double p : {0.005, 0.04, 0.3, 0.6, 0.99}) {
    double last = 0.0;
    for (const double noise : {-2.0, -0.6, 0.3, 1.2, 2.0, 4.0}) {
      const double now = odds.probability(p, noise);
      EXPECT_GE(now, last) << p << ' ' << noise;
      last = now;
    }
    EXPECT_GT(odds.probability(p, 4.0), p);
    EXPECT_LT(odds.probability(p, -2.0), p);
  }
}

// Of estimates that are the target's own, and of estimates of a half that stand for 0 or 1: after
// learning, tokens with this noise are right as often as it says.
TEST(NoiseOdds, LearnsHowMuchNoiseSays) {
  for (const bool exact : {true, false}) {
    std::mt19937 random(3);
    NoiseOdds odds;
    const auto sample = [&](double noise) {
      const double p = exact                                               ? 0.5
                       : std::generate_canonical<double, 53>(random) < 0.5 ? 0.999
                                                                           : 0.001;
      return wins(p, noise, random);
    };
    for (int i = 0; i < 20000; ++i) {
      const double noise = gumbel(random);
      odds.observe(0.5, noise, sample(noise));
    }
    for (const double noise : {-0.75, 0.25, 1.3, 3.0}) {
      double hits = 0.0;
      for (int i = 0; i < 4000; ++i) hits += sample(noise) ? 1.0 : 0.0;
      // A cell holds at least 256 counts: 3 sigma 0.1.
      EXPECT_NEAR(odds.probability(0.5, noise), hits / 4000.0, 0.12) << exact << ' ' << noise;
    }
    const double difference = odds.probability(0.5, 3.0) - odds.probability(0.5, -0.75);
    if (exact) {
      EXPECT_GT(difference, 0.6);
    } else {
      EXPECT_LT(difference, 0.25);
    }
  }
}

TEST(NoiseOdds, StaysAProbability) {
  for (const bool hit : {false, true}) {
    NoiseOdds odds;
    for (int i = 0; i < 2000; ++i) odds.observe(0.3, 0.1, hit);
    const double p = odds.probability(0.34, 0.4);
    EXPECT_GT(p, 0.0);
    EXPECT_LT(p, 1.0);
    EXPECT_EQ(p > 0.9, hit);
  }
}

}  // namespace
}  // namespace forerun
