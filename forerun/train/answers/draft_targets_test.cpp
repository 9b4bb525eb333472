#include "forerun/train/answers/draft_targets.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace forerun {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(DraftTargets, EveryTokenHasItsPlaceInAReducedVocabularyOrNone) {
  EXPECT_EQ(places_of_tokens(6, at::tensor({1, 4, 5}, at::kLong)), (Numbers{-1, 0, -1, -1, 1, 2}));
  EXPECT_EQ(places_of_tokens(3, {}), (Numbers{0, 1, 2}));
}

TEST(DraftTargets, DistinctRowsGiveTheNumbersBack) {
  const Numbers numbers = {7, 3, 7, 9, 3, 0};
  const DistinctRows distinct = distinct_rows(numbers);
  EXPECT_TRUE(at::equal(distinct.rows, at::tensor({0, 3, 7, 9}, at::kLong)));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(distinct.rows[distinct.of[i]].item<std::int64_t>(), numbers[i]);
  }
}

TEST(DraftTargets, RandomPositionsAreDifferentAndReachAllOfTheRange) {
  const AnswerDocument document{.tokens = {}, .prompt = 0, .key = 5};
  std::set<std::int64_t> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Numbers some = random_positions(document, seed, 3, 11, 4);
    EXPECT_EQ(std::set<std::int64_t>(some.begin(), some.end()).size(), 4U);
    EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
    EXPECT_EQ(some, random_positions(document, seed, 3, 11, 4));
    seen.insert(some.begin(), some.end());
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(random_positions(document, 1, 3, 5, 9), (Numbers{3, 4}));
  EXPECT_TRUE(random_positions(document, 1, 5, 3, 9).empty());
}

// Blocks of 2, 3 and 1 drafts and one without any; right: yes no, yes yes yes, no.
TEST(DraftTargets, ADraftIsKeptIfAllBeforeItAreRight) {
  const Numbers draft = {0, 1, 0, 1, 2, 0}, label = {4, 5, 6, 7, 8, 9};
  const auto figures = kept_drafts(draft, at::tensor({4, 0, 6, 7, 8, 0}, at::kLong), label, 4);
  ASSERT_EQ(figures.size(), 2U);
  EXPECT_EQ(figures[0].value(), 2.0 / 4.0);
  EXPECT_EQ(figures[1].value(), (1 + 3 + 0 + 0 + 4) / 4.0);
}

}  // namespace
}  // namespace forerun
