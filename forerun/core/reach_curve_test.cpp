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

TEST(ReachCurve, APriorCountsAsFourTrees) {
  ReachCurve curve(0.5);
  for (int i = 0; i < 4; ++i) curve.observe(std::vector<double>{0.9, 0.05});
  EXPECT_DOUBLE_EQ(curve.scaled(1.0)[0], 0.7);
  EXPECT_DOUBLE_EQ(curve.scaled(1.0)[1], 0.15);
  EXPECT_DOUBLE_EQ(curve.scaled(1.0)[2], 0.0625);
  for (int i = 0; i < 1000; ++i) curve.observe(std::vector<double>{0.2});
  EXPECT_NEAR(curve.scaled(1.0)[0], 0.2, 1e-3);
}

}  // namespace
}  // namespace forerun
