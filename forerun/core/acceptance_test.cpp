#include "forerun/core/acceptance.h"

#include <gtest/gtest.h>

#include <random>

namespace forerun {
namespace {

void see(Acceptance& a, std::size_t confidence_bin, std::size_t position, bool kept, int times) {
  for (int i = 0; i < times; ++i) {
    a.observe(confidence_bin, position, kept);
    a.next_round();
  }
}

TEST(Acceptance, StartsAtOneHalf) {
  const Acceptance a;
  EXPECT_EQ(a.probability(0, 0), 0.5);
  EXPECT_EQ(a.probability(7, 63), 0.5);
  EXPECT_EQ(a.probability(7, 1000), 0.5);
}

TEST(Acceptance, FindsTheRateOfEveryBinAndPosition) {
  std::mt19937_64 random(3);
  const double law[2][2] = {{0.9, 0.6}, {0.3, 0.1}};
  Acceptance a;
  for (int i = 0; i < 600; ++i) {
    for (std::size_t g : {0U, 1U}) {
      for (std::size_t j : {0U, 1U}) {
        a.observe(g, j, std::uniform_real_distribution<double>()(random) < law[g][j]);
      }
    }
    a.next_round();
  }
  for (std::size_t g : {0U, 1U}) {
    // 64 counts: one sigma is below 0.06, the sum of weights squared halves it again.
    for (std::size_t j : {0U, 1U}) EXPECT_NEAR(a.probability(g, j), law[g][j], 0.15);
  }
}

TEST(Acceptance, BorrowsFromThePositionBeforeThenFromTheBinThenFromAll) {
  Acceptance a;
  for (int i = 0; i < 200; ++i) {
    a.observe(2, 0, true);
    a.observe(2, 1, false);
    a.next_round();
  }
  EXPECT_GT(a.probability(2, 0), 0.9);
  EXPECT_LT(a.probability(2, 1), 0.1);
  EXPECT_EQ(a.probability(2, 2), a.probability(2, 1));  // no counts: as the previous position
  EXPECT_EQ(a.probability(2, 63), a.probability(2, 1));
  EXPECT_NEAR(a.probability(5, 0), 0.5, 0.01);  // a confidence_bin without counts: as all
  Acceptance good;
  see(good, 2, 0, true, 200);
  EXPECT_GT(good.probability(5, 3), 0.9);
}

TEST(Acceptance, ForgetsWithinAHundredRoundsButNotWhileNothingIsExamined) {
  Acceptance a;
  see(a, 0, 0, true, 300);
  const double before = a.probability(0, 0);
  for (int i = 0; i < 1000; ++i) a.next_round();
  EXPECT_EQ(a.probability(0, 0), before);
  see(a, 0, 0, false, 100);
  EXPECT_LT(a.probability(0, 0), 0.25);
  EXPECT_LE(a.cell(0, 0).examined, 64.0);
}

TEST(SequenceBias, ComparesASequenceWithSimilarOnesAndForgets) {
  SequenceBias bias;
  EXPECT_EQ(bias.apply(0.7), 0.7);
  for (int i = 0; i < 40; ++i) {
    bias.observe(0.5, i % 2 == 0);  // as expected
    bias.next_round();
  }
  EXPECT_NEAR(bias.apply(0.7), 0.7, 0.03);
  SequenceBias good, bad;
  for (int i = 0; i < 20; ++i) {
    good.observe(0.5, true);
    bad.observe(0.5, false);
    good.next_round();
    bad.next_round();
  }
  EXPECT_GT(good.apply(0.5), 0.7);
  EXPECT_LT(bad.apply(0.5), 0.3);
  EXPECT_EQ(bad.apply(0.0), 0.0);
  EXPECT_EQ(bad.apply(1.0), 1.0);
  for (int i = 0; i < 1000; ++i) bad.next_round();
  EXPECT_NEAR(bad.apply(0.5), 0.5, 0.01);
}

}  // namespace
}  // namespace forerun
