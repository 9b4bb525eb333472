#include "forerun/core/ended_texts.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

// A text of so many outputs, of which drafting saves `gained`.
DraftAccount text(int outputs, double gained) {
  DraftAccount account;
  for (int i = 0; i < outputs; ++i) account.settle(0, i == 0 ? -gained : 0.0, 0);
  return account;
}

TEST(EndedTexts, ExpectsALittleOfTheFirst) {
  EXPECT_DOUBLE_EQ(EndedTexts().length(), 128.0);
  EXPECT_DOUBLE_EQ(EndedTexts().gained(), 16.0);
}

TEST(EndedTexts, FollowsWhatTextsHad) {
  EndedTexts ended;
  for (int i = 0; i < 100; ++i) ended.observe(text(300, 90));
  EXPECT_NEAR(ended.length(), 300, 1);
  EXPECT_NEAR(ended.gained(), 90, 1);
  for (int i = 0; i < 16; ++i) ended.observe(text(300, -2));
  EXPECT_NEAR(ended.gained(), 0.35 * 90, 5);
  for (int i = 0; i < 84; ++i) ended.observe(text(300, -2));
  EXPECT_NEAR(ended.gained(), -2, 1);
}

TEST(EndedTexts, AShortTextSaysLittle) {
  EndedTexts ended;
  ended.observe(text(8, -2));
  EXPECT_GT(ended.gained(), 14.0);
  EndedTexts other;
  other.observe(text(128, -32));
  EXPECT_LT(other.gained(), 8.0);
}

TEST(EndedTexts, WhatWasReadIsNoGain) {
  DraftAccount account;
  account.settle(3, 1, 5);
  EXPECT_DOUBLE_EQ(account.gained(), -3.0);
}

}  // namespace
}  // namespace forerun
