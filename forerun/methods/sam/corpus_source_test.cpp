// Estimates against their definition, and the source on texts of its corpus.
#include "forerun/methods/sam/corpus_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "forerun/core/categorical.h"
#include "forerun/core/shared_noise.h"
#include "forerun/methods/sam/follower_estimates.h"

namespace forerun {
namespace {

using Text = std::vector<Token>;

std::shared_ptr<const CorpusIndex> shared_index_of(const std::vector<Text>& corpus,
                                                   std::size_t vocab) {
  std::vector<CorpusDocument> documents;
  documents.reserve(corpus.size());
  for (const Text& text : corpus) documents.push_back({text, 0});
  return std::make_shared<const CorpusIndex>(documents, vocab);
}

// By hand: an end gives (count - discount) / occurrences, and discount * distinct / occurrences to
// shorter ones.
TEST(FollowerEstimates, InterpolateEndsWithDiscounts) {
  const auto index = shared_index_of({{1, 2}, {1, 2}, {5, 1, 2}, {1, 3}}, 9);
  const FollowerEstimates one = estimate_followers(*index, Text{7, 1});
  ASSERT_EQ(one.size, 2U);
  ASSERT_EQ(one.length, 1U);
  EXPECT_EQ(one.best[0].token, 2);
  EXPECT_EQ(one.best[1].token, 3);
  const double discount = 3.0 - 4.0 * one.best[0].probability;
  EXPECT_GT(discount, 0.0);
  EXPECT_LT(discount, 1.0);
  EXPECT_NEAR(one.best[1].probability, (1.0 - discount) / 4.0, 1e-12);
  const FollowerEstimates two = estimate_followers(*index, Text{5, 1});
  ASSERT_EQ(two.size, 2U);
  EXPECT_EQ(two.length, 2U);
  const double left =
      two.best[1].probability / one.best[1].probability;  // for the end of one token
  EXPECT_GT(left, 0.0);
  EXPECT_LT(left, 1.0);
  EXPECT_NEAR(two.best[0].probability, 1.0 - left + left * one.best[0].probability, 1e-12);
}

// A Markov source of order 2, some tokens likelier than others.
Text markov_text(std::mt19937& random, std::size_t size, std::uint32_t letters) {
  Text out = {0, 1};
  while (out.size() < size) {
    const auto context = static_cast<std::uint32_t>(out[out.size() - 1]) * 31U +
                         static_cast<std::uint32_t>(out[out.size() - 2]) * 7U;
    const std::uint32_t u = random() % 16;
    const std::uint32_t choice = u < 9 ? 0 : u < 13 ? 1 : u < 15 ? 2 : random() % letters;
    out.push_back(static_cast<Token>((context + choice * 5U) % letters));
  }
  return out;
}

// Of probabilities by falling order: their sum.
double falling_sum(const FollowerEstimates& estimates) {
  double sum = 0.0, before = 1.0;
  for (const FollowerEstimates::Estimate& one : estimates.all()) {
    EXPECT_GE(one.probability, 0.0);
    EXPECT_LE(one.probability, before);
    before = one.probability;
    sum += one.probability;
  }
  return sum;
}

TEST(FollowerEstimates, AreProbabilitiesByFallingOrder) {
  std::mt19937 random(4);
  const auto index = shared_index_of({markov_text(random, 3000, 40)}, 40);
  const Text other = markov_text(random, 400, 40);
  for (std::size_t n = 1; n <= other.size(); ++n) {
    const FollowerEstimates e = estimate_followers(*index, std::span(other).first(n));
    EXPECT_LE(falling_sum(e), 1.0 + 1e-12);
    for (const FollowerEstimates::Estimate& one : e.all()) EXPECT_GT(one.probability, 0.0);
    EXPECT_EQ(e.length, index->longest(std::span(other).first(n)).length);
  }
}

TEST(FollowerEstimates, NameTheTokensOfTheLawThatWroteTheCorpus) {
  std::mt19937 random(5);
  const auto index = shared_index_of({markov_text(random, 60000, 12)}, 12);
  const Text other = markov_text(random, 4000, 12);
  std::size_t first = 0, named = 0;
  for (std::size_t n = 2; n < other.size(); ++n) {
    const FollowerEstimates e = estimate_followers(*index, std::span(other).first(n));
    ASSERT_GT(e.size, 0U);
    first += e.best[0].token == other[n] ? 1 : 0;
    for (const auto& one : e.all()) named += one.token == other[n] ? 1 : 0;
  }
  const auto texts = static_cast<double>(other.size() - 2);
  // 9/16 + 1/16 * 1/12 = 0.57 is the best possible, 1/12 that of one token for all texts.
  EXPECT_GT(static_cast<double>(first) / texts, 0.42);
  EXPECT_GT(static_cast<double>(named) / texts, 0.88);
}

// Estimates that are the law itself, and noise of many positions: what is named first is the output
// far more often than the likeliest token is, and is named with less than certainty.
TEST(FollowerEstimates, NameTheOutputWhoseNoiseIsKnown) {
  std::vector<Text> corpus;
  const std::vector<std::size_t> counts = {50, 25, 15, 10};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    corpus.insert(corpus.end(), counts[i], {9, static_cast<Token>(i)});
  }
  const auto index = shared_index_of(corpus, 10);
  const FollowerEstimates estimates = estimate_followers(*index, Text{9}, FollowerEstimates::kAll);
  ASSERT_EQ(estimates.size, counts.size());
  const std::vector<float> logs = {std::log(0.5F), std::log(0.25F), std::log(0.15F),
                                   std::log(0.1F)};
  const Categorical law(logs);
  int named = 0, likeliest = 0;
  constexpr int kDraws = 1000;
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    const RngKey key = TokenSequence(seed, 0, {9}, 1).key_at(1);
    FollowerEstimates weighed = estimates;
    weigh_by_noise(weighed, 0.7F, key);
    EXPECT_LT(falling_sum(weighed), 1.0);
    const Token output = sample_shared_noise(law, key).token;
    if (weighed.best[0].token == output) ++named;
    if (output == 0) ++likeliest;
  }
  EXPECT_NEAR(likeliest, 0.5 * kDraws, 60);  // 3.8 standard errors
  EXPECT_GT(named, 0.95 * kDraws);
}

// Of more than kMost estimates those stay that the noise favours.
TEST(FollowerEstimates, KeepTheFewThatNoiseFavours) {
  FollowerEstimates all;
  all.size = FollowerEstimates::kAll;
  for (std::size_t i = 0; i < all.size; ++i) all.best[i] = {static_cast<Token>(i), 0.03};
  const RngKey key = TokenSequence(3, 0, {9}, 1).key_at(1);
  weigh_by_noise(all, 0.7F, key);
  ASSERT_EQ(all.size, FollowerEstimates::kMost);
  for (std::size_t i = 0; i < FollowerEstimates::kAll; ++i) {
    const auto kept = all.all();
    const auto token = static_cast<Token>(i);
    const bool is_kept =
        std::any_of(kept.begin(), kept.end(), [&](const auto& e) { return e.token == token; });
    const double worst = shared_noise(kept.back().token, key);
    EXPECT_EQ(is_kept, shared_noise(token, key) >= worst) << i;
  }
}

TEST(EstimateCells, AreDistinctAndWithinTheRates) {
  const HitRates rates = EstimateCells::rates();
  std::map<std::pair<std::size_t, std::size_t>, double> seen;
  for (const bool weighed : {false, true}) {
    for (const std::size_t length : {1, 2, 3, 4, 5, 6, 9, 10, 32}) {
      double before = 0.0;
      for (const double p : {0.0, 0.005, 0.03, 0.3, 0.6, 0.97, 0.99, 1.0}) {
        for (const std::size_t rank : {0, 1, 2, 7}) {
          const HitRates::Cell cell = EstimateCells::cell(length, p, rank, weighed);
          const double probability = rates.probability(cell);
          EXPECT_GT(probability, 0.0);
          EXPECT_LT(probability, 1.0);
          EXPECT_GE(probability, before) << p;
          before = probability;
          seen[{cell.group, cell.cell}] = probability;
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 2U * 6U * 6U * 3U);
}

std::vector<Token> tokens_of(const std::vector<TreeChild>& children) {
  std::vector<Token> out;
  for (const TreeChild& c : children) out.push_back(c.token);
  return out;
}

// Two texts share the index; nodes of a tree continue their own paths.
TEST(CorpusSource, ContinuesAlongEachPath) {
  const auto index = shared_index_of({{1, 2, 3, 4, 5}, {1, 2, 6, 7, 1, 2, 6, 8}, {9, 1, 2, 6}}, 20);
  CorpusSource source(index);
  const TokenSequence text(1, 0, {15, 9, 1, 2}, 10), unknown(1, 1, {15, 16}, 10);
  ASSERT_TRUE(source.begin(text));
  std::vector<TreeChild> root, six, three, end, nothing;
  source.children(root);
  EXPECT_EQ(tokens_of(root), (std::vector<Token>{6, 3}));  // 6 after 9 1 2 and most often
  source.add(0, 6);
  source.children(six);
  EXPECT_EQ(tokens_of(six), (std::vector<Token>{7, 8}));
  source.add(0, 3);
  source.children(three);
  EXPECT_EQ(tokens_of(three), std::vector<Token>{4});
  source.add(1, 8);  // the end of a document
  source.children(end);
  EXPECT_TRUE(end.empty());
  ASSERT_TRUE(source.begin(unknown));
  source.children(nothing);
  EXPECT_TRUE(nothing.empty());
  source.forget(0);
  EXPECT_FALSE(CorpusSource(shared_index_of({{3}}, 5)).begin(text));
}

TokenSequence sampled(std::uint64_t seed, Rule rule) {
  return {seed, 0, {9}, 10, {}, {.sampling = {.temperature = 0.7F}, .rule = rule, .changes = {}}};
}

// After 9 came 1 and 2 as often, and 3 and 4 after either: a node's children are in the order of
// the noise of its own position, under the rule that shares it; under another in that of the
// tokens.
TEST(CorpusSource, RanksEqualFollowersByTheNoiseOfTheirPosition) {
  const auto index = shared_index_of({{9, 1, 3}, {9, 1, 4}, {9, 2, 3}, {9, 2, 4}}, 10);
  CorpusSource source(index);
  int higher = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const Rule rule : {Rule::kSharedNoise, Rule::kMaximal}) {
      const TokenSequence text = sampled(seed, rule);
      ASSERT_TRUE(source.begin(text));
      for (std::size_t depth = 0; depth < 2; ++depth) {
        if (depth > 0) source.add(0, 1);
        std::vector<TreeChild> children;
        source.children(children);
        const Token low = depth == 0 ? 1 : 3, high = depth == 0 ? 2 : 4;
        const RngKey key = text.key_at(1 + depth);
        const bool noise = shared_noise(high, key) > shared_noise(low, key);
        const bool first = rule == Rule::kSharedNoise && noise;
        if (first) ++higher;
        ASSERT_GE(children.size(), 2U);
        EXPECT_EQ(children[0].token, first ? high : low) << seed << ' ' << depth;
        EXPECT_EQ(children[1].token, first ? low : high);
      }
    }
  }
  EXPECT_GT(higher, 30);
  EXPECT_LT(higher, 90);
}

}  // namespace
}  // namespace forerun
