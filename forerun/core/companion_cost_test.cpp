#include "forerun/core/companion_cost.h"

#include <gtest/gtest.h>

#include <limits>

namespace forerun {
namespace {

constexpr double kExpected = 0.01, kExtra = 0.002;  // seconds

CompanionCost after(int passes, double extra = kExtra) {
  CompanionCost cost;
  for (int i = 0; i < passes; ++i) cost.observe(kExpected + extra, kExpected);
  return cost;
}

TEST(CompanionCost, TheFirstPassDoesNotCount) {
  CompanionCost cost;
  cost.observe(3 * kExpected, kExpected);
  EXPECT_EQ(cost.seconds(3), 0.0);
  EXPECT_FALSE(cost.known());
}

TEST(CompanionCost, BeginsAsIfFourPassesHadCostNothingMore) {
  EXPECT_NEAR(after(2).seconds(3), kExtra / 5, 1e-9);
  EXPECT_FALSE(after(2).known());
  EXPECT_TRUE(after(5).known());
  EXPECT_NEAR(after(200).seconds(3), kExtra, 0.01 * kExtra);
}

TEST(CompanionCost, IsOfThePassAndNotOfARow) {
  const CompanionCost cost = after(200);
  EXPECT_EQ(cost.seconds(1), cost.seconds(12));
  EXPECT_EQ(cost.seconds(0), 0.0);
}

TEST(CompanionCost, OneSlowPassCountsAsTwiceItsTime) {
  CompanionCost cost = after(200);
  cost.observe(100 * kExpected, kExpected);
  EXPECT_NEAR(cost.seconds(3), kExtra + (kExpected - kExtra) / 32, 2e-6);
}

TEST(CompanionCost, IsBelievedLessAndLessWhereNothingIsMeasured) {
  CompanionCost few = after(2), many = after(200);
  const double at_first = few.seconds(1);
  for (int i = 0; i < 36; ++i) few.pass_without();
  EXPECT_EQ(few.seconds(1), at_first);
  for (int i = 0; i < 36; ++i) few.pass_without();
  EXPECT_NEAR(few.seconds(1), at_first / 2, 1e-9);
  for (int i = 0; i < 400; ++i) many.pass_without();
  EXPECT_NEAR(many.seconds(1), kExtra, 0.01 * kExtra);  // it rests on more
  CompanionCost forgotten = many;
  for (int i = 0; i < 113; ++i) forgotten.pass_without();
  EXPECT_EQ(forgotten.seconds(1), 0.0);
  // Beside a new measurement it counts as one or two.
  many.observe(kExpected, kExpected);
  EXPECT_LT(many.seconds(1), 0.9 * kExtra);
}

TEST(CompanionCost, IgnoresTimesThatAreNone) {
  CompanionCost cost = after(3);
  const double before = cost.seconds(1);
  cost.observe(std::numeric_limits<double>::quiet_NaN(), kExpected);
  cost.observe(-1.0, kExpected);
  cost.observe(kExpected, 0.0);
  EXPECT_EQ(cost.seconds(1), before);
  EXPECT_EQ(after(50, -kExtra).seconds(1), 0.0);  // cheaper than expected: nothing, not a gain
}

}  // namespace
}  // namespace forerun
