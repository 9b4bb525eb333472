// What is found in a text against a search over all of it, and how a tree follows it.
#include "forerun/methods/lookup/lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "forerun/methods/lookup/lookup_source.h"

namespace forerun {
namespace {

constexpr std::size_t kMostCompared = 64;

// Tokens that the text has in common before `i` and before its end.
std::size_t shared_before(const std::vector<Token>& text, std::size_t i) {
  std::size_t n = 0;
  while (n < std::min(kMostCompared, i + 1) && text[i - n] == text[text.size() - 1 - n]) ++n;
  return n;
}

// The longest earlier occurrence of the end, the most recent among equals.
SuffixIndex::Match longest_by_search(const std::vector<Token>& text) {
  SuffixIndex::Match best;
  for (std::size_t i = text.size() - 1; i-- > 0;) {
    const std::size_t n = shared_before(text, i);
    if (n >= 2 && n > best.length) best = {i + 1, n};
  }
  return best;
}

TEST(SuffixIndex, FindsWhatASearchFinds) {
  std::mt19937 random(9);
  std::size_t found = 0, long_ones = 0;
  for (int trial = 0; trial < 40; ++trial) {
    SuffixIndex index;
    std::vector<Token> text;
    for (int i = 0; i < 120; ++i) {
      // Often as some tokens before, so that there are long matches.
      const bool again = text.size() > 20 && random() % 8 != 0;
      text.push_back(again ? text[text.size() - 17] : static_cast<Token>(random() % 4));
      index.extend(text);
      const SuffixIndex::Match want = longest_by_search(text), got = index.longest(text);
      ASSERT_EQ(got.length, want.length);
      found += want.length > 0 ? 1 : 0;
      long_ones += want.length > 20 ? 1 : 0;
      if (want.length > 0) {
        ASSERT_EQ(got.next, want.next);
      }
      std::size_t before = text.size();
      for (const SuffixIndex::Match& match : index.all(text)) {
        ASSERT_LT(match.next, before);  // the most recent first
        before = match.next;
        ASSERT_EQ(match.length, want.length == 0 ? 1U : shared_before(text, match.next - 1));
      }
    }
  }
  EXPECT_GT(found, 1000U);
  EXPECT_GT(long_ones, 100U);
}

TEST(LookupDrafter, ContinuesTheLongestMatchAndThenItself) {
  TokenSequence sequence(1, 0, {8, 1, 2, 3, 9, 2, 3, 4, 5, 1, 2, 3}, 100);
  const std::array<TokenSequence*, 1> one = {&sequence};
  LookupDrafter drafter;
  const std::array<std::size_t, 1> most = {12};
  const std::vector<SequencePlan> plans = drafter.plan(one, most, DraftLength());
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans[0].limit, 12U);
  EXPECT_EQ(plans[0].confidence_bin, 1U);  // three tokens
  // 1 2 3 was followed by 9; past the end of the text its own draft goes on.
  const std::vector<Token> all = {9, 2, 3, 4, 5, 1, 2, 3, 9, 2, 3, 4};
  EXPECT_EQ(drafter.deterministic_draft(0).tokens, all);
  const std::array<std::size_t, 1> length = {2};
  EXPECT_EQ(drafter.propose(one, length)[0].tokens, (std::vector<Token>{9, 2}));
}

TEST(LookupSource, FollowsOnlyTheMatchesThatGoOnAsThePath) {
  // After 5 6 came 7 1 and 8 2.
  const TokenSequence sequence(1, 0, {5, 6, 7, 1, 5, 6, 8, 2, 5, 6}, 100);
  for (const auto& [first, second] : {std::pair<Token, Token>{7, 1}, {8, 2}}) {
    LookupSource source;
    ASSERT_TRUE(source.begin(sequence));
    source.add(0, first);
    std::vector<TreeChild> children;
    source.children(children);
    ASSERT_EQ(children.size(), 1U) << first;
    EXPECT_EQ(children[0].token, second);
  }
}

}  // namespace
}  // namespace forerun
