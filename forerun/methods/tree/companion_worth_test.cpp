#include "forerun/methods/tree/companion_worth.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(CompanionWorth, IsTheOutputsOfRecentRuns) {
  CompanionWorth worth(0.5, 4);
  EXPECT_DOUBLE_EQ(worth.mean(), 0.5);
  for (int i = 0; i < 600; ++i) {
    worth.ran();
    if (i % 4 == 0) worth.earned();
  }
  EXPECT_NEAR(worth.mean(), 0.25, 0.05);
  for (int i = 0; i < 600; ++i) worth.ran();
  EXPECT_LT(worth.mean(), 0.1);
}

TEST(CompanionWorth, TriesRowsThatDoNotPayForAHundredthOfTheOutputs) {
  for (const double price : {0.05, 0.3, 2.0}) {
    CompanionWorth worth(0.0, 5);
    int tried = 0;
    constexpr int kRounds = 20000;
    for (int i = 0; i < kRounds; ++i) tried += worth.tries(price) ? 1 : 0;
    EXPECT_LE(price * tried, 0.01 * kRounds + 5 * price);
    EXPECT_GE(price * tried, 0.008 * kRounds);
  }
}

}  // namespace
}  // namespace forerun
