#include "forerun/core/draft_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace forerun {
namespace {

constexpr double kNoSeconds = std::numeric_limits<double>::quiet_NaN();

TEST(DraftCost, FindsTheFixedPartAndThatOfAToken) {
  std::mt19937_64 random(2);
  DraftCost cost;
  for (int i = 0; i < 100; ++i) {
    const std::size_t n = std::uniform_int_distribution<std::size_t>(1, 12)(random);
    const double noise = std::exp(std::normal_distribution<double>(0.0, 0.02)(random));
    cost.observe(n, (0.004 + 0.001 * static_cast<double>(n)) * noise);
  }
  EXPECT_NEAR(cost.fixed(), 0.004, 5e-4);
  EXPECT_NEAR(cost.per_token(), 0.001, 1e-4);
  EXPECT_EQ(cost.seconds(0), 0.0);
  EXPECT_NEAR(cost.seconds(6), 0.010, 3e-4);
}

TEST(DraftCost, AssumesAllCostPerTokenUntilTheNumberVaries) {
  DraftCost cost;
  for (int i = 0; i < 10; ++i) cost.observe(8, 0.008);
  EXPECT_NEAR(cost.fixed(), 0.0, 1e-12);
  EXPECT_NEAR(cost.seconds(2), 0.002, 1e-12);
}

TEST(DraftCost, ABusyMomentHardlyMovesItALastingChangeDoes) {
  DraftCost cost;
  for (int i = 0; i < 40; ++i) cost.observe(4, 0.004);
  cost.observe(4, 0.020);
  EXPECT_LT(cost.seconds(4), 0.0041);
  for (int i = 0; i < 8; ++i) cost.observe(4, 0.020);
  EXPECT_NEAR(cost.seconds(4), 0.020, 2e-3);
  for (int i = 0; i < 8; ++i) cost.observe(4, 0.002);
  EXPECT_NEAR(cost.seconds(4), 0.002, 3e-4);
}

TEST(DraftCost, ScalesAllItsParts) {
  DraftCost cost, twice;
  for (int i = 0; i < 10; ++i) {
    const std::size_t n = i % 2 == 0 ? 2 : 6;
    cost.observe(n, 0.003 + 0.001 * static_cast<double>(n));
    twice.observe(n, 0.006 + 0.002 * static_cast<double>(n));
  }
  cost.scale(2.0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(cost.fixed(), twice.fixed(), 1e-12);
    EXPECT_NEAR(cost.per_token(), twice.per_token(), 1e-12);
    cost.observe(4, 0.015);  // and goes on as if it had been so before
    twice.observe(4, 0.015);
  }
}

TEST(DraftCost, IgnoresWhatIsNoTime) {
  DraftCost cost;
  for (const double s : {kNoSeconds, -1.0, 0.0}) cost.observe(4, s);
  cost.observe(0, 1.0);
  EXPECT_EQ(cost.seconds(4), 0.0);
  SteadySeconds steady;
  for (const double s : {kNoSeconds, -1.0, 0.0}) steady.observe(s);
  EXPECT_EQ(steady.mean(), 0.0);
  steady.observe(0.25);
  EXPECT_EQ(steady.mean(), 0.25);
}

}  // namespace
}  // namespace forerun
