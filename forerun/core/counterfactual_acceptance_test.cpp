#include "forerun/core/counterfactual_acceptance.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

namespace forerun {
namespace {

using Tokens = std::vector<Token>;
using Scores =
    std::vector<std::tuple<std::size_t, std::size_t, bool>>;  // confidence_bin, position, kept

struct ScoreList {
  Scores scores;
  void operator()(std::size_t confidence_bin, std::size_t position, bool kept) {
    scores.emplace_back(confidence_bin, position, kept);
  }
  Scores take() { return std::exchange(scores, {}); }
};

TEST(CounterfactualAcceptance, JudgesACutDraftAsTheOutputsArriveUpToItsFirstMiss) {
  CounterfactualAcceptance counterfactual;
  ScoreList score;
  counterfactual.add(3, Tokens{5, 6, 7, 8, 9}, 0, Tokens{5}, score);
  EXPECT_EQ(score.take(), (Scores{{3, 0, true}}));
  counterfactual.advance(Tokens{6}, score);
  EXPECT_EQ(score.take(), (Scores{{3, 1, true}}));
  counterfactual.advance(Tokens{7, 1, 9}, score);
  EXPECT_EQ(score.take(), (Scores{{3, 2, true}, {3, 3, false}}));
  counterfactual.advance(Tokens{9}, score);  // after the miss nothing is examined
  EXPECT_EQ(score.take(), Scores{});
}

TEST(CounterfactualAcceptance, ContinuesAfterTheKeptDrafts) {
  CounterfactualAcceptance counterfactual;
  ScoreList score;
  counterfactual.add(0, Tokens{5, 6, 7, 8}, 2, Tokens{7}, score);  // 5, 6 kept; 7 was the bonus
  EXPECT_EQ(score.take(), (Scores{{0, 2, true}}));
  counterfactual.advance(Tokens{8, 4}, score);
  EXPECT_EQ(score.take(), (Scores{{0, 3, true}}));
  counterfactual.add(0, Tokens{5, 6}, 2, Tokens{7}, score);  // nothing was cut
  counterfactual.advance(Tokens{1}, score);
  EXPECT_EQ(score.take(), Scores{});
}

TEST(CounterfactualAcceptance, TracksSeveralDraftsAndDropsTheOldest) {
  CounterfactualAcceptance counterfactual;
  ScoreList score;
  for (std::size_t g = 0; g < 9; ++g) counterfactual.add(g, Tokens{1, 1, 1}, 0, Tokens{}, score);
  counterfactual.advance(Tokens{1}, score);
  Scores expected;
  for (std::size_t g : {8U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) expected.emplace_back(g, 0, true);
  EXPECT_EQ(score.take(), expected);
  counterfactual.advance(Tokens{2}, score);
  EXPECT_EQ(score.take().size(), 8U);
  counterfactual.add(0, Tokens{4}, 0, Tokens{}, score);  // replaces a settled one
  counterfactual.advance(Tokens{4}, score);
  EXPECT_EQ(score.take(), (Scores{{0, 0, true}}));
}

}  // namespace
}  // namespace forerun
