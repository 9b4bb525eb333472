#include "forerun/core/lane.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(TokenLane, CountsDownItsBudgetAndEndsWithIt) {
  TokenLane lane(9, 4, {7, 8}, 2);
  EXPECT_FALSE(lane.done());
  EXPECT_EQ(lane.prompt_size(), 2U);
  EXPECT_EQ(lane.remaining(), 2U);
  EXPECT_TRUE(lane.outputs().empty());
  EXPECT_TRUE(lane.push(1));
  EXPECT_EQ(lane.remaining(), 1U);
  EXPECT_FALSE(lane.push(2));
  EXPECT_TRUE(lane.done());
  EXPECT_EQ(lane.remaining(), 0U);
  EXPECT_EQ(std::vector<Token>(lane.tokens().begin(), lane.tokens().end()),
            (std::vector<Token>{7, 8, 1, 2}));
  EXPECT_EQ(std::vector<Token>(lane.outputs().begin(), lane.outputs().end()),
            (std::vector<Token>{1, 2}));
}

TEST(TokenLane, IsAskedAfterEveryOutputWhetherItEnds) {
  TokenLane lane(9, 4, {0}, 10, [](Token t) { return t == 5; });
  EXPECT_TRUE(lane.push(1));
  EXPECT_FALSE(lane.push(5));
  EXPECT_TRUE(lane.done());
  EXPECT_EQ(lane.remaining(), 8U);
}

TEST(TokenLane, WithoutABudgetItIsDoneFromTheStart) { EXPECT_TRUE(TokenLane(1, 0, {3}, 0).done()); }

TEST(TokenLane, ItsDrawsAreThoseOfSeedRequestRoundAndTheNextPosition) {
  TokenLane lane(0x123456789ULL, 4, {7, 8, 9}, 5);
  const auto same = [](const Draws& a, const Draws& b) {
    return a.seed == b.seed && a.request == b.request && a.round == b.round &&
           a.position == b.position;
  };
  EXPECT_TRUE(same(lane.draws(), {0x123456789ULL, 4, 0, 3}));
  lane.push(1);
  lane.next_round();
  EXPECT_EQ(lane.round(), 1U);
  EXPECT_EQ(lane.request(), 4U);
  EXPECT_TRUE(same(lane.draws(), {0x123456789ULL, 4, 1, 4}));
  EXPECT_TRUE(same(lane.draws_at(11), {0x123456789ULL, 4, 1, 11}));
}

}  // namespace
}  // namespace forerun
