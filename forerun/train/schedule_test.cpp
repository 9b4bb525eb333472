#include "forerun/train/schedule.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(Schedule, RisesStraightThenFallsAsACosine) {
  const Schedule s = Schedule::of(1.0, 0.0, 100, 0.04);
  EXPECT_EQ(s.warmup, 4);
  EXPECT_DOUBLE_EQ(s.at(1), 0.2);
  EXPECT_DOUBLE_EQ(s.at(4), 0.8);
  EXPECT_DOUBLE_EQ(s.at(5), 1.0);
  EXPECT_NEAR(s.at(5 + 95 / 5), 0.5 * (1.0 + 0.8090169943749475), 1e-12);  // cos(pi / 5)
  EXPECT_NEAR(s.at(100), 0.0, 1e-15);
}

TEST(Schedule, EndsAtTheSmallestRate) {
  const Schedule s = Schedule::of(6e-4, 0.1, 1000, 0.0);
  EXPECT_DOUBLE_EQ(s.at(1), 6e-4);
  EXPECT_NEAR(s.at(1000), 6e-5, 1e-18);
  for (std::int64_t i = 2; i <= 1000; ++i) EXPECT_LT(s.at(i), s.at(i - 1));
}

TEST(Schedule, AFewStepsAreEnough) {
  EXPECT_GT(Schedule::of(1.0, 0.0, 1, 0.5).at(1), 0.0);
  EXPECT_GT(Schedule::of(1.0, 0.0, 2, 0.99).at(1), 0.0);
  EXPECT_EQ(Schedule::of(1.0, 0.0, 1000000, 0.04).warmup, 40000);
}

}  // namespace
}  // namespace forerun
