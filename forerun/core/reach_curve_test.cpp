#include "forerun/core/reach_curve.h"

#include <gtest/gtest.h>

#include <vector>

namespace forerun {
namespace {

TEST(ReachCurve, ExpectsItsPriorBeforeATree) {
  const ReachCurve curve(0.5);
  const std::vector<double> reach = curve.scaled(1.0);
  ASSERT_EQ(reach.size(), ReachCurve::kNodes);
  EXPECT_DOUBLE_EQ(reach[0], 0.5);
  EXPECT_DOUBLE_EQ(reach[2], 0.125);
  EXPECT_DOUBLE_EQ(curve.scaled(3.0)[0], 1.0);
  EXPECT_NEAR(curve.sum(), 1.0, 1e-9);
}

TEST(ReachCurve, APriorCountsAsThirtyTwoFirstTrees) {
  ReachCurve curve(0.5);
  for (int i = 0; i < 32; ++i) curve.observe(std::vector<double>{0.9, 0.05}, 0);
  EXPECT_NEAR(curve.scaled(1.0)[0], 0.7, 1e-12);
  EXPECT_NEAR(curve.scaled(1.0)[1], 0.15, 1e-12);
  EXPECT_NEAR(curve.scaled(1.0)[2], 0.0625, 1e-12);
  for (int i = 0; i < 10000; ++i) curve.observe(std::vector<double>{0.2}, 0);
  EXPECT_NEAR(curve.scaled(1.0)[0], 0.2, 1e-3);
}

// Of a text with 200 trees, 8 log(1 + 200 / 8) = 26 count; of many texts all do.
TEST(ReachCurve, OneLongTextDoesNotDecideForOthers) {
  ReachCurve one(0.5), many(0.5);
  for (std::size_t i = 0; i < 200; ++i) one.observe(std::vector<double>{}, i);
  EXPECT_NEAR(one.scaled(1.0)[0], 0.5 * 32.0 / (32.0 + 26.5), 1e-2);
  for (int i = 0; i < 200; ++i) many.observe(std::vector<double>{}, 0);
  EXPECT_NEAR(many.scaled(1.0)[0], 0.5 * 32.0 / 232.0, 1e-3);
}

}  // namespace
}  // namespace forerun
