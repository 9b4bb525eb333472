#include "forerun/train/pace.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(Pace, IsUnknownBeforeTheFirstStep) { EXPECT_EQ(Pace().remaining(10), 0.0); }

TEST(Pace, LeavesTheFirstStepOutOnceThereIsAnother) {
  Pace pace;
  pace.add(60.0);
  EXPECT_DOUBLE_EQ(pace.remaining(10), 600.0);
  pace.add(2.0);
  EXPECT_DOUBLE_EQ(pace.remaining(10), 20.0);
}

TEST(Pace, FollowsARunThatBecomesSlower) {
  Pace pace;
  for (int i = 0; i < 500; ++i) pace.add(1.0);
  for (int i = 0; i < 500; ++i) pace.add(3.0);
  EXPECT_NEAR(pace.remaining(100), 300.0, 3.0);
}

}  // namespace
}  // namespace forerun
