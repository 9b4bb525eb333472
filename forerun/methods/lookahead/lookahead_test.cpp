// Pool and window of lookahead decoding against brute force, and the source in a tree.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "forerun/methods/lookahead/lookahead_source.h"

namespace forerun {
namespace {

using Gram = std::vector<Token>;

TEST(NgramPool, HoldsTheLastDistinctNgramsOfEachKey) {
  std::mt19937 random(3);
  for (const std::size_t per_key : {1, 3, 7}) {
    NgramPool pool(per_key);
    std::vector<std::pair<Token, Gram>> seen;
    for (int i = 0; i < 3000; ++i) {
      const auto key = static_cast<Token>(random() % 12);
      const Gram next = {static_cast<Token>(random() % 4), static_cast<Token>(random() % 3)};
      pool.add(key, next);
      seen.emplace_back(key, next);
      if (i % 37 != 0) continue;
      std::map<Token, std::vector<Gram>> want;  // the newest first
      for (auto at = seen.rbegin(); at != seen.rend(); ++at) {
        std::vector<Gram>& grams = want[at->first];
        if (std::find(grams.begin(), grams.end(), at->second) == grams.end() &&
            grams.size() < per_key) {
          grams.push_back(at->second);
        }
      }
      for (Token k = 0; k < 12; ++k) {
        const auto got = pool.after(k);
        EXPECT_EQ(std::vector<Gram>(got.rbegin(), got.rend()), want[k]);
      }
    }
  }
}

TEST(NgramPool, StaysBounded) {
  NgramPool pool(7, 100);
  for (Token key = 0; key < 1000; ++key) pool.add(key, Gram{1, 2});
  EXPECT_EQ(pool.keys(), 100U);
  EXPECT_TRUE(pool.after(0).empty());
  EXPECT_EQ(pool.after(999).size(), 1U);
  // More n-grams of a key that is there take no other key's place.
  for (Token next = 0; next < 200; ++next) pool.add(999, Gram{next, 2});
  EXPECT_EQ(pool.keys(), 100U);
  for (Token key = 900; key < 1000; ++key) EXPECT_FALSE(pool.after(key).empty()) << key;
}

// A target whose next token is a function of all that a row sees.
Token next_of(const std::vector<Token>& seen) {
  std::uint32_t h = 7;
  for (const Token t : seen) h = h * 31U + static_cast<std::uint32_t>(t) + 1U;
  return static_cast<Token>((h >> 8U) % 23U);
}

// What a companion row sees after the text: the drafted tokens and rows on its way.
std::vector<Token> way_to(std::int32_t row, const TokenDraft& draft, const CompanionRows& rows) {
  std::vector<Token> way;
  const auto drafted = static_cast<std::int32_t>(draft.size());
  for (std::int32_t at = drafted + row; at >= 0;) {
    const auto i = static_cast<std::size_t>(at);
    way.push_back(at < drafted ? draft.tokens[i] : rows.tokens[i - draft.size()]);
    at = at < drafted ? draft.parent(i) : rows.parents[i - draft.size()];
  }
  std::reverse(way.begin(), way.end());
  return way;
}

// The window by its definition, as a table of entries: Fu et al. 2024, figure 3.
TEST(LookaheadWindow, RowsSeeLevelZeroAndTheirColumnAndGiveTheNgrams) {
  constexpr std::size_t kColumns = 4, kNgram = 4;
  std::mt19937 random(9);
  LookaheadWindow window(kColumns, kNgram);
  std::vector<Token> text = {3, 1, 4, 1, 5, 9, 2, 6};
  std::map<std::pair<std::size_t, std::size_t>, Token> kept;  // of earlier rounds, moved along
  std::size_t told = 0, stayed = 0;
  for (int round = 0; round < 60; ++round) {
    TokenDraft draft;
    for (std::uint32_t n = random() % 3; n > 0; --n) {
      draft.tokens.push_back(static_cast<Token>(random() % 9));
    }
    const bool runs = random() % 5 != 0;
    CompanionRows rows;
    window.add_rows(text, draft, rows);
    EXPECT_LE(rows.rows(), window.most_rows());
    // Entries by (level, column): of level 0 in their order, then the others column by column.
    std::map<std::pair<std::size_t, std::size_t>, Token> entries = {{{0, 0}, text.back()}};
    const std::size_t levels = (rows.rows() + 1) / kColumns;
    ASSERT_EQ((rows.rows() + 1) % kColumns, 0U);
    for (std::size_t r = 0; r < rows.rows(); ++r) {
      const std::size_t level = (r + 1) / kColumns, column = (r + 1) % kColumns;
      entries[{level, column}] = rows.tokens[r];
      std::vector<Token> want;  // after the text, whose last token is the entry (0, 0)
      for (std::size_t c = 1; c <= column; ++c) want.push_back(entries.at({0, c}));
      for (std::size_t l = 1; l <= level; ++l) want.push_back(entries.at({l, column}));
      EXPECT_EQ(way_to(static_cast<std::int32_t>(r), draft, rows), want);
      EXPECT_EQ(rows.groups[r], -1);
      EXPECT_EQ(rows.skips[r], 0);
      const auto before = kept.find({level, column});
      if (before == kept.end()) {  // a guess
        EXPECT_NE(std::find(text.begin(), text.end(), rows.tokens[r]), text.end());
      } else {
        EXPECT_EQ(rows.tokens[r], before->second) << level << ' ' << column;
        ++stayed;
      }
    }
    const std::size_t emitted = 1 + random() % (kColumns + 2);  // more than the window at times
    std::vector<Token> predicted;
    if (window.flat()) predicted.push_back(next_of(text));
    for (const std::int32_t row : rows.scored) {
      std::vector<Token> seen = text;
      const auto way = way_to(row, draft, rows);
      seen.insert(seen.end(), way.begin(), way.end());
      predicted.push_back(next_of(seen));
    }
    ASSERT_EQ(predicted.size(), kColumns);
    std::vector<Token> longer = text;
    for (std::size_t e = 0; e < emitted; ++e) longer.push_back(next_of(longer));
    if (!runs) {
      window.skip(longer, emitted);
    } else {
      std::vector<std::pair<Token, Gram>> got, want;
      window.take(predicted, longer, emitted, [&](Token key, std::span<const Token> next) {
        got.emplace_back(key, Gram(next.begin(), next.end()));
      });
      for (std::size_t c = 0; c < kColumns && levels == kNgram - 1; ++c) {
        want.emplace_back(entries.at({0, c}),
                          Gram{entries.at({1, c}), entries.at({2, c}), predicted[c]});
      }
      EXPECT_EQ(got, want);
      told += got.size();
      for (std::size_t c = 0; c < kColumns; ++c) entries[{levels, c}] = predicted[c];
    }
    // Level l of column i keeps its prediction of the token l + i places on.
    const std::size_t down = runs && levels == kNgram - 1 ? 1 : 0;
    kept.clear();
    for (const auto& [at, token] : entries) {
      const auto [level, column] = at;
      if (level < down || column + down < emitted) continue;
      kept[{level - down, column + down - emitted}] = token;
    }
    text = std::move(longer);
  }
  EXPECT_GT(told, 50U);
  EXPECT_GT(stayed, 50U);
}

TEST(LookaheadWindow, GuessesDifferFromEachOther) {
  std::vector<Token> text(100);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<Token>(i);
  LookaheadWindow window(20, 4);
  CompanionRows rows;
  window.add_rows(text, {}, rows);
  ASSERT_EQ(rows.rows(), 19U);
  EXPECT_GT(std::set<Token>(rows.tokens.begin(), rows.tokens.end()).size(), 10U);
}

// Column 0 of a window whose guesses were all right holds what the target says next.
TEST(LookaheadWindow, FollowsTheTextWhereItStands) {
  LookaheadWindow window(3, 3);
  std::vector<Token> text = {0};
  // The target counts up, whatever it sees: after one round level 1 is right everywhere.
  for (Token round = 0; round < 8; ++round) {
    CompanionRows rows;
    window.add_rows(text, {}, rows);
    std::vector<Token> predicted;
    if (window.flat()) predicted.push_back(text.back() + 1);
    for (const std::int32_t row : rows.scored) {
      const auto way = way_to(row, {}, rows);
      predicted.push_back(text.back() + static_cast<Token>(way.size()) + 1);
    }
    text.push_back(text.back() + 1);
    window.take(predicted, text, 1, [&](Token key, std::span<const Token> next) {
      if (round < 3) return;  // guesses are still in the window
      EXPECT_EQ(Gram(next.begin(), next.end()), (Gram{key + 1, key + 2}));
    });
  }
}

TEST(LookaheadSource, DraftsTheNgramsThatBeginWithTheLastToken) {
  std::any memory;
  LookaheadSource source({.columns = 2, .ngram = 3});
  source.remember(memory);
  TokenSequence sequence(1, 0, {7, 8}, 100);
  EXPECT_FALSE(source.begin(sequence));
  const RowOffer free{.price = [](std::size_t) { return 0.0; }, .reach = {}};
  for (int round = 0; round < 6; ++round) {  // the target says 5 after everything
    CompanionRows rows;
    source.companions(sequence, {}, free, rows);
    const auto scored = static_cast<std::int64_t>(rows.scored.size());
    at::Tensor logits = at::zeros({1 + scored, 16});
    logits.select(1, 5).fill_(3.0);
    const VerifiedTokens verified(logits,
                                  {{.first = 0,
                                    .count = 1,
                                    .companions = scored,
                                    .companion_rows = static_cast<std::int64_t>(rows.rows())}});
    sequence.push(5);
    const Outcome outcome{.emitted = 1};
    const TokenDraft none;
    source.observe({.sequence = sequence,
                    .text = sequence.tokens().first(sequence.tokens().size() - 1),
                    .draft = none,
                    .outcome = outcome,
                    .rows = verified,
                    .index = 0,
                    .companions_ran = true});
  }
  ASSERT_TRUE(source.begin(sequence));
  std::vector<TreeChild> children;
  source.children(children);
  ASSERT_FALSE(children.empty());
  EXPECT_EQ(children[0].token, 5);
  source.add(0, 5);
  children.clear();
  source.children(children);
  ASSERT_FALSE(children.empty());
  EXPECT_EQ(children[0].token, 5);
  EXPECT_EQ(children[0].cell.group, 1);  // one token of the n-gram is on the way
  // Rows that no gain is worth are not asked for.
  CompanionRows rows;
  const RowOffer dear{.price = [](std::size_t) { return 1e9; }, .reach = {}};
  source.companions(sequence, {}, dear, rows);
  EXPECT_TRUE(rows.empty());
}

TEST(LookaheadSource, RefusesAWindowThatCannotBe) {
  EXPECT_THROW(LookaheadSource({.columns = 0}), std::invalid_argument);
  EXPECT_THROW(LookaheadSource({.ngram = 1}), std::invalid_argument);
  EXPECT_THROW(LookaheadSource({.ngram = 9}), std::invalid_argument);
  EXPECT_THROW(LookaheadSource({.pool = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
