#include "forerun/methods/tree/companion_worth.h"

#include <gtest/gtest.h>

#include <random>

namespace forerun {
namespace {

// Runs of a text, each of which brings in an output with a chance of `each` in 4.
void run(CompanionWorth& worth, CompanionWorth::Text& text, int runs, unsigned each) {
  static std::mt19937 random(3);
  for (int i = 0; i < runs; ++i) {
    worth.ran(text);
    if (random() % 4 < each) worth.earned(text);
  }
}

TEST(CompanionWorth, OfATextIsTheOutputsOfItsRecentRuns) {
  CompanionWorth worth(0.5, 4);
  CompanionWorth::Text text;
  EXPECT_DOUBLE_EQ(worth.mean(text), 0.5);
  for (int i = 0; i < 600; ++i) {
    worth.ran(text);
    if (i % 4 == 0) worth.earned(text);
  }
  EXPECT_NEAR(worth.mean(text), 0.25, 0.05);
  for (int i = 0; i < 600; ++i) worth.ran(text);
  EXPECT_LT(worth.mean(text), 0.1);
}

TEST(CompanionWorth, IsLessWhatCheckingTheDraftsCost) {
  CompanionWorth worth(0.5, 4);
  CompanionWorth::Text text;
  for (int i = 0; i < 600; ++i) {
    worth.ran(text);
    worth.spent(text, 0.75);
    worth.earned(text);
  }
  EXPECT_NEAR(worth.mean(text), 0.25, 0.05);
  EXPECT_GT(worth.mean({}), 0.25);  // of many: between the prior and this text
  EXPECT_LT(worth.mean({}), 0.5);
  for (int i = 0; i < 600; ++i) {
    worth.ran(text);
    worth.spent(text, 0.75);
  }
  EXPECT_LT(worth.mean(text), -0.6);
}

// Drafts that outlive their run are checked in every round, while no run may decide against them.
TEST(CompanionWorth, WhatIsSpentWithoutARunHasABound) {
  CompanionWorth worth(0.5, 4);
  CompanionWorth::Text text;
  for (int i = 0; i < 600; ++i) worth.ran(text);
  for (int i = 0; i < 5000; ++i) worth.spent(text, 0.05);
  EXPECT_LT(worth.mean(text), 0.0);
  EXPECT_GT(worth.mean(text), -0.05);  // 64 times 0.05 among as many runs
  int runs = 0;
  for (; worth.mean(text) < 0.3; ++runs) {  // rows are worth something again
    worth.ran(text);
    worth.earned(text);
  }
  EXPECT_LT(runs, 35);
}

TEST(CompanionWorth, OfANewTextIsTheMeanOfManyWhateverTheLastOneWas) {
  CompanionWorth worth(0.5, 4);
  CompanionWorth::Text first;
  run(worth, first, 2000, 0);
  EXPECT_LT(worth.mean(first), 0.1);
  EXPECT_GT(worth.mean({}), 0.2);  // one text counts about as much as the prior
  for (int text = 0; text < 100; ++text) {
    CompanionWorth::Text of;
    run(worth, of, 32, 3);
  }
  const double before = worth.mean({});
  EXPECT_NEAR(before, 0.75, 0.12);
  CompanionWorth::Text hard;
  run(worth, hard, 2000, 0);
  EXPECT_LT(worth.mean(hard), 0.1);
  EXPECT_GT(worth.mean({}), 0.94 * before);
  for (int text = 0; text < 100; ++text) {
    CompanionWorth::Text of;
    run(worth, of, 32, 0);
  }
  EXPECT_LT(worth.mean({}), 0.1);
}

// However long texts are, the mean is that of their runs.
TEST(CompanionWorth, OfShortTextsIsNotLessForTheirLength) {
  constexpr int kRepeats = 50;
  for (const int runs : {4, 8, 32}) {
    double sum = 0.0;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      CompanionWorth worth(0.75, 4);
      for (int text = 0; text < 300; ++text) {
        CompanionWorth::Text of;
        run(worth, of, runs, 3);
      }
      sum += worth.mean({});
    }
    EXPECT_NEAR(sum / kRepeats, 0.75, 0.02) << runs;
  }
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
