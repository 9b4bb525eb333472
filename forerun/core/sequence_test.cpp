#include "forerun/core/sequence.h"

#include <gtest/gtest.h>

#include "forerun/core/rng_key.h"

namespace forerun {
namespace {

TEST(TokenSequence, CountsDownItsBudgetAndEndsWithIt) {
  TokenSequence sequence(9, 4, {7, 8}, 2);
  EXPECT_FALSE(sequence.done());
  EXPECT_EQ(sequence.prompt_size(), 2U);
  EXPECT_EQ(sequence.remaining(), 2U);
  EXPECT_TRUE(sequence.outputs().empty());
  EXPECT_TRUE(sequence.push(1));
  EXPECT_EQ(sequence.remaining(), 1U);
  EXPECT_FALSE(sequence.push(2));
  EXPECT_TRUE(sequence.done());
  EXPECT_EQ(sequence.remaining(), 0U);
  EXPECT_EQ(std::vector<Token>(sequence.tokens().begin(), sequence.tokens().end()),
            (std::vector<Token>{7, 8, 1, 2}));
  EXPECT_EQ(std::vector<Token>(sequence.outputs().begin(), sequence.outputs().end()),
            (std::vector<Token>{1, 2}));
}

TEST(TokenSequence, EndIsCheckedAfterEveryOutput) {
  TokenSequence sequence(9, 4, {0}, 10, [](Token t) { return t == 5; });
  EXPECT_TRUE(sequence.push(1));
  EXPECT_FALSE(sequence.push(5));
  EXPECT_TRUE(sequence.done());
  EXPECT_EQ(sequence.remaining(), 8U);
}

TEST(TokenSequence, WithoutABudgetItIsDoneFromTheStart) {
  EXPECT_TRUE(TokenSequence(1, 0, {3}, 0).done());
}

TEST(TokenSequence, ItsDrawsAreThoseOfSeedRequestRoundAndTheNextPosition) {
  TokenSequence sequence(0x123456789ULL, 4, {7, 8, 9}, 5);
  const auto same = [](const RngKey& a, const RngKey& b) {
    return a.seed == b.seed && a.request == b.request && a.round == b.round &&
           a.position == b.position;
  };
  EXPECT_TRUE(same(sequence.key(), {0x123456789ULL, 4, 0, 3}));
  sequence.push(1);
  sequence.next_round();
  EXPECT_EQ(sequence.round(), 1U);
  EXPECT_EQ(sequence.request(), 4U);
  EXPECT_TRUE(same(sequence.key(), {0x123456789ULL, 4, 1, 4}));
  EXPECT_TRUE(same(sequence.key_at(11), {0x123456789ULL, 4, 1, 11}));
}

}  // namespace
}  // namespace forerun
