#include "forerun/core/pass_cost.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace forerun {
namespace {

using Point = PassCost::Point;

TEST(PassCost, IsUnknownBeforeTheFirstPass) {
  const PassCost cost;
  EXPECT_FALSE(cost.known());
  EXPECT_EQ(cost.seconds(1), 0.0);
  EXPECT_EQ(cost.explored(), 0U);
  EXPECT_TRUE(cost.curve().empty());
}

TEST(PassCost, AssumesThreePercentARowUntilItHasSeenTwo) {
  PassCost cost;
  cost.observe(1, 0.010);
  EXPECT_NEAR(cost.seconds(11), 0.013, 1e-12);
  EXPECT_EQ(cost.explored(), 2U);
  PassCost four;
  four.observe(4, 0.0109);
  EXPECT_NEAR(four.seconds(1), 0.010, 1e-12);
}

TEST(PassCost, IsLinearBetweenMeasurementsAndExtrapolatesBeyondThem) {
  PassCost cost;
  for (const Point& p : std::array<Point, 4>{{{1, 0.010}, {4, 0.013}, {8, 0.018}, {16, 0.034}}}) {
    cost.observe(p.rows, p.seconds);
  }
  EXPECT_NEAR(cost.seconds(1), 0.010, 1e-12);
  EXPECT_NEAR(cost.seconds(2), 0.011, 1e-12);
  EXPECT_NEAR(cost.seconds(5), 0.01425, 1e-12);
  EXPECT_NEAR(cost.seconds(12), 0.026, 1e-12);
  EXPECT_NEAR(cost.seconds(20), 0.042, 1e-12);
  EXPECT_EQ(cost.explored(), 32U);
}

TEST(PassCost, ABusyMomentHardlyMovesIt) {
  PassCost cost;
  for (int i = 0; i < 50; ++i) cost.observe(1, 0.010);
  cost.observe(1, 0.050);
  EXPECT_LT(cost.seconds(1), 0.0105);
  for (int i = 0; i < 20; ++i) cost.observe(1, 0.010);
  EXPECT_NEAR(cost.seconds(1), 0.010, 1e-4);
}

TEST(PassCost, ALastingChangeAlsoMovesUnobservedSizes) {
  PassCost cost;
  for (int i = 0; i < 20; ++i) cost.observe(1, 0.010);
  for (int i = 0; i < 40; ++i) cost.observe(8, 0.014);
  EXPECT_NEAR(cost.seconds(1), 0.010, 2e-4);
  EXPECT_LT(cost.drift(1), 0.02);
  for (int i = 0; i < 30; ++i) cost.observe(8, 0.028);
  EXPECT_NEAR(cost.seconds(8), 0.028, 1e-3);
  EXPECT_NEAR(cost.seconds(1), 0.020, 2e-3);
  EXPECT_NEAR(cost.drift(1), std::log(2.0), 0.15);
  EXPECT_EQ(cost.drift(8), 0.0);
  cost.observe(1, 0.020);
  EXPECT_EQ(cost.drift(1), 0.0);
}

TEST(PassCost, ADearFirstPassSaysNothingAboutSmallerOnes) {
  PassCost cost;
  for (int i = 0; i < 20; ++i) cost.observe(1, 0.010);
  for (int i = 0; i < 6; ++i) cost.observe(2, 0.020);
  EXPECT_NEAR(cost.seconds(2), 0.020, 2e-3);
  EXPECT_NEAR(cost.seconds(1), 0.010, 2e-4);
}

TEST(PassCost, DoesNotFallWithTheRowsWhateverIsSeen) {
  std::mt19937_64 random(1);
  PassCost cost;
  for (int i = 0; i < 2000; ++i) {
    const std::size_t rows = std::uniform_int_distribution<std::size_t>(1, 40)(random);
    cost.observe(rows, std::exp(std::normal_distribution<double>(-5.0, 1.0)(random)));
    for (std::size_t m = 1; m < 100; ++m)
      ASSERT_LE(cost.seconds(m), cost.seconds(m + 1) * (1 + 1e-12));
  }
}

TEST(PassCost, IgnoresWhatIsNoTime) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  PassCost cost;
  for (const Point& p : std::array<Point, 3>{{{1, kNan}, {0, 1.0}, {2, -1.0}}}) {
    cost.observe(p.rows, p.seconds);
  }
  EXPECT_FALSE(cost.known());
  cost.observe(1, 0.010);
  for (const double s : {kNan, kInfinite, -kInfinite, -1.0, 0.0}) cost.observe(1, s);
  cost.observe(0, 1.0);
  EXPECT_EQ(cost.seconds(1), 0.010);
}

TEST(PassCost, TakesPassesLargerThanItsLastKnot) {
  PassCost cost;
  for (int i = 0; i < 50; ++i) cost.observe(5000, 1.0);
  EXPECT_NEAR(cost.seconds(5000), 1.0, 0.01);
  EXPECT_LT(cost.seconds(1), 0.05);
}

TEST(PassCost, ForgetsAMeasurementThatNoPassConfirms) {
  PassCost cost;
  const auto small_passes = [&](int n) {
    for (int i = 0; i < n; ++i) {
      cost.observe(1 + static_cast<std::size_t>(i % 2), i % 2 == 0 ? 0.010 : 0.0103);
    }
  };
  small_passes(20);
  for (int i = 0; i < 10; ++i) cost.observe(8, 0.080);
  small_passes(20);
  EXPECT_GT(cost.seconds(8), 0.05);
  small_passes(520);
  EXPECT_LT(cost.seconds(8), 0.013);
}

// One dear pass of four rows among cheap ones of one and two: a caller that believed it for as long
// as a knot lives would draft one token a round for 512 rounds.
TEST(PassCost, SoonTriesAgainWhatWasMeasuredOnceAndDear) {
  PassCost cost;
  for (int i = 0; i < 20; ++i) cost.observe(1, 0.010);
  cost.observe(4, 0.020);
  const double dear = cost.believed_seconds(4);
  EXPECT_GT(dear, 0.012);
  for (int i = 0; i < 32; ++i) cost.observe(2, 0.0103);
  EXPECT_NEAR(cost.believed_seconds(4), dear, 1e-9);
  double last = dear;
  for (int i = 0; i < 160; ++i) {
    cost.observe(2, 0.0103);
    EXPECT_LE(cost.believed_seconds(4), last + 1e-12);
    last = cost.believed_seconds(4);
  }
  EXPECT_NEAR(last, 0.0109, 2e-4);
  EXPECT_NEAR(cost.seconds(4), dear, 1e-9);  // as measured
  cost.observe(4, 0.0115);                   // again: in full, as it is short
  EXPECT_NEAR(cost.believed_seconds(4), 0.0115, 2e-4);
}

TEST(PassCost, BelievesForLongWhatManyPassesMeasured) {
  PassCost cost;
  for (int i = 0; i < 20; ++i) cost.observe(1, 0.010);
  for (int i = 0; i < 20; ++i) cost.observe(4, 0.020);
  for (int i = 0; i < 192; ++i) cost.observe(2, 0.0103);
  EXPECT_GT(cost.believed_seconds(4), 0.016);
}

}  // namespace
}  // namespace forerun
