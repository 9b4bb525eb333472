#include "forerun/methods/tree/companion_worth.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

// Runs of a text, each of which brings in an output with a chance of `each` in 4.
void run(CompanionWorth& worth, CompanionWorth::Text& text, int runs, int each) {
  for (int i = 0; i < runs; ++i) {
    worth.ran(text);
    if (i % 4 < each) worth.earned(text);
  }
}

TEST(CompanionWorth, OfATextIsTheOutputsOfItsRecentRuns) {
  CompanionWorth worth(0.5, 4);
  CompanionWorth::Text text;
  EXPECT_DOUBLE_EQ(worth.mean(text), 0.5);
  run(worth, text, 600, 1);
  EXPECT_NEAR(worth.mean(text), 0.25, 0.05);
  run(worth, text, 600, 0);
  EXPECT_LT(worth.mean(text), 0.1);
}

TEST(CompanionWorth, OfANewTextIsTheMeanOfManyWhateverTheLastOneWas) {
  CompanionWorth worth(0.5, 4);
  for (int text = 0; text < 60; ++text) {
    CompanionWorth::Text of;
    run(worth, of, 32, 3);
  }
  const double before = worth.mean({});
  EXPECT_NEAR(before, 0.75, 0.03);
  CompanionWorth::Text hard;
  run(worth, hard, 2000, 0);
  EXPECT_LT(worth.mean(hard), 0.2);
  EXPECT_GT(worth.mean({}), 0.75 * before);
  for (int text = 0; text < 60; ++text) {
    CompanionWorth::Text of;
    run(worth, of, 32, 0);
  }
  EXPECT_LT(worth.mean({}), 0.1);
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
