#include "forerun/core/shadow.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

namespace forerun {
namespace {

using Tokens = std::vector<Token>;
using Scores = std::vector<std::tuple<std::size_t, std::size_t, bool>>;  // grade, position, kept

struct Scorer {
  Scores scores;
  void operator()(std::size_t grade, std::size_t position, bool kept) {
    scores.emplace_back(grade, position, kept);
  }
  Scores take() { return std::exchange(scores, {}); }
};

TEST(ShadowDrafts, JudgesACutDraftAsTheOutputsArriveUpToItsFirstMiss) {
  ShadowDrafts shadow;
  Scorer score;
  shadow.add(3, Tokens{5, 6, 7, 8, 9}, 0, Tokens{5}, score);
  EXPECT_EQ(score.take(), (Scores{{3, 0, true}}));
  shadow.advance(Tokens{6}, score);
  EXPECT_EQ(score.take(), (Scores{{3, 1, true}}));
  shadow.advance(Tokens{7, 1, 9}, score);
  EXPECT_EQ(score.take(), (Scores{{3, 2, true}, {3, 3, false}}));
  shadow.advance(Tokens{9}, score);  // behind the miss nothing is examined
  EXPECT_EQ(score.take(), Scores{});
}

TEST(ShadowDrafts, GoesOnBehindWhatTheRuleKept) {
  ShadowDrafts shadow;
  Scorer score;
  shadow.add(0, Tokens{5, 6, 7, 8}, 2, Tokens{7}, score);  // 5, 6 kept; 7 was the bonus
  EXPECT_EQ(score.take(), (Scores{{0, 2, true}}));
  shadow.advance(Tokens{8, 4}, score);
  EXPECT_EQ(score.take(), (Scores{{0, 3, true}}));
  shadow.add(0, Tokens{5, 6}, 2, Tokens{7}, score);  // nothing was cut
  shadow.advance(Tokens{1}, score);
  EXPECT_EQ(score.take(), Scores{});
}

TEST(ShadowDrafts, FollowsSeveralDraftsAndGivesUpTheOldest) {
  ShadowDrafts shadow;
  Scorer score;
  for (std::size_t g = 0; g < 9; ++g) shadow.add(g, Tokens{1, 1, 1}, 0, Tokens{}, score);
  shadow.advance(Tokens{1}, score);
  Scores expected;
  for (std::size_t g : {8U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) expected.emplace_back(g, 0, true);
  EXPECT_EQ(score.take(), expected);
  shadow.advance(Tokens{2}, score);
  EXPECT_EQ(score.take().size(), 8U);
  shadow.add(0, Tokens{4}, 0, Tokens{}, score);  // takes the place of a settled one
  shadow.advance(Tokens{4}, score);
  EXPECT_EQ(score.take(), (Scores{{0, 0, true}}));
}

}  // namespace
}  // namespace forerun
