#include "forerun/methods/diffuspec/draft_window.h"

#include <gtest/gtest.h>

#include <random>

namespace forerun {
namespace {

TEST(DraftWindow, IsThirtyOnceThenTwentyWithThePapersConstants) {
  std::mt19937 random(4);
  DraftWindow window;
  EXPECT_EQ(window.length(), 30U);
  for (int round = 0; round < 200; ++round) {
    window.observe(window.length(), random() % window.length());  // never all of it
    EXPECT_EQ(window.length(), 20U);
  }
}

TEST(DraftWindow, GrowsWhereWholeDraftsAreKept) {
  DraftWindow window;
  window.observe(30, 30);  // G = A = 15: 15 + 10
  EXPECT_EQ(window.length(), 25U);
  window.observe(25, 25);  // 20 + 10
  EXPECT_EQ(window.length(), 30U);
  window.observe(30, 12);  // G = 25, A = 16
  EXPECT_EQ(window.length(), 25U);
}

TEST(DraftWindow, FollowsTheEndOfTheTextWithinItsLimits) {
  DraftWindow window({.memory = 0.5, .step = 2.0, .least = 3, .most = 8});
  window.observe(8, 1);  // 4
  EXPECT_EQ(window.length(), 4U);
  window.observe(0, 0);  // 2: at least 3
  EXPECT_EQ(window.length(), 3U);
  DraftWindow kept({.memory = 0.5, .step = 10.0, .least = 3, .most = 8});
  kept.observe(8, 8);  // 4 + 10: at most 8
  EXPECT_EQ(kept.length(), 8U);
}

TEST(DraftWindow, TheNewestRoundHasTheWeightOfMemory) {
  DraftWindow window({.memory = 0.25, .step = 5.0, .least = 1, .most = 40});
  EXPECT_EQ(window.length(), 40U);
  window.observe(40, 40);  // G = A = 10: 10 + 5
  EXPECT_EQ(window.length(), 15U);
  window.observe(15, 5);  // G = 11.25, A = 8.75: rounded up
  EXPECT_EQ(window.length(), 12U);
  window.observe(6, 12);  // G = 9.94, A = 9.56
  EXPECT_EQ(window.length(), 10U);
  window.observe(0, 2);  // G = 7.45, A = 7.67: longer again
  EXPECT_EQ(window.length(), 13U);
}

}  // namespace
}  // namespace forerun
