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
}

}  // namespace
}  // namespace forerun
