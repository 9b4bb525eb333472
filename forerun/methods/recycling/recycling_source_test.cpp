// Successors against a brute-force memory, and the source on scripted logits.
#include "forerun/methods/recycling/recycling_source.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <any>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace forerun {
namespace {

std::vector<float> random_logits(std::mt19937& random, std::size_t vocab) {
  std::vector<float> out(vocab);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  for (float& x : out) x = normal(random);
  return out;
}

std::vector<Token> by_sorting(const std::vector<float>& logits) {
  std::vector<Token> out(logits.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Token>(i);
  std::sort(out.begin(), out.end(), [&](Token a, Token b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  out.resize(Successors::kTokens);
  return out;
}

void observe(RecyclingSource& source, const TokenSequence& sequence, const TokenDraft& draft,
             const VerifiedTokens& rows) {
  const Outcome outcome;
  source.observe({.sequence = sequence,
                  .text = sequence.tokens(),
                  .draft = draft,
                  .outcome = outcome,
                  .rows = rows,
                  .index = 0});
}

TEST(Successors, AreTheLastPredictionsAfterEachContext) {
  std::mt19937 random(5);
  Successors successors;
  std::map<std::vector<Token>, std::vector<Token>> known;
  std::vector<Token> text;
  for (int i = 0; i < 4000; ++i) {
    text.push_back(static_cast<Token>(random() % 12));
    const std::vector<float> logits = random_logits(random, 40);
    successors.learn(text, Successors::prediction_of(logits));
    for (std::size_t n = 1; n <= std::min(text.size(), Successors::kOrders); ++n) {
      known[{text.end() - static_cast<std::ptrdiff_t>(n), text.end()}] = by_sorting(logits);
    }
  }
  EXPECT_EQ(successors.size(), known.size());
  for (const auto& [context, tokens] : known) {
    const Successors::Prediction* found = successors.after(context, context.size());
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(std::vector<Token>(found->tokens.begin(), found->tokens.end()), tokens);
  }
  EXPECT_EQ(successors.after(std::vector<Token>{39, 39}, 2), nullptr);
  EXPECT_EQ(successors.after(std::vector<Token>{}, 1), nullptr);
}

// A prediction has the likeliest tokens' shares of what they have together, in bins, whatever is
// added to all logits.
TEST(Successors, KnowTheSharesOfTheirTokens) {
  Successors successors;
  const std::vector<Token> text = {4};
  const auto scores = [&](const std::vector<double>& shares) {
    std::vector<float> logits;
    for (const double share : shares) logits.push_back(static_cast<float>(std::log(share) + 60.0));
    successors.learn(text, Successors::prediction_of(logits));
    const Successors::Prediction* found = successors.after(text, 1);
    return std::vector<int>(found->score.begin(), found->score.begin() + found->count);
  };
  EXPECT_EQ(scores({0.6, 0.3, 0.1}), (std::vector<int>{5, 4, 2}));
  EXPECT_EQ(scores({0.01, 0.95, 0.04}), (std::vector<int>{7, 1, 0}));
  EXPECT_EQ(scores({0.25, 0.25, 0.25, 0.25}), (std::vector<int>(4, 4)));  // a bound opens its bin
  EXPECT_EQ(scores({1.0}), std::vector<int>{7});
  // Ten tokens alike: eight are kept, an eighth each.
  EXPECT_EQ(scores(std::vector<double>(10, 0.1)), std::vector<int>(8, 3));
}

TEST(Successors, CountHowOftenTheLikeliestTokenWasTheSame) {
  Successors successors;
  const std::vector<Token> text = {4};
  const auto stable = [&](Token first, Token second) {
    std::vector<float> logits(20, 0.0F);
    logits[static_cast<std::size_t>(first)] = 2.0F;
    logits[static_cast<std::size_t>(second)] = 1.0F;
    successors.learn(text, Successors::prediction_of(logits));
    return static_cast<int>(successors.after(text, 1)->stable);
  };
  EXPECT_EQ(stable(0, 1), 0);
  EXPECT_EQ(stable(0, 2), 1);
  EXPECT_EQ(stable(0, 1), 2);
  EXPECT_EQ(stable(0, 1), 2);  // at most
  EXPECT_EQ(stable(3, 1), 0);
  EXPECT_EQ(stable(3, 0), 1);
  EXPECT_EQ(stable(0, 3), 0);
}

TEST(Successors, OfLogitsThatAreNoNumbersAreNone) {
  Successors successors;
  const std::vector<Token> text = {4, 5};
  successors.learn(text, Successors::prediction_of(
                             std::vector<float>(9, std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(successors.size(), 0U);
  EXPECT_EQ(successors.after(text, 1), nullptr);
}

TEST(Successors, StayBounded) {
  std::mt19937 random(6);
  Successors successors(2048);
  std::vector<Token> text = {1, 2};
  const std::vector<float> logits = random_logits(random, 40);
  for (int i = 0; i < 50000; ++i) {
    text.push_back(static_cast<Token>(random() % 1000000));
    successors.learn(text, Successors::prediction_of(logits));
    ASSERT_LE(successors.size(), 2048U);
  }
  // The newest are there.
  for (std::size_t n = 1; n <= 3; ++n) EXPECT_NE(successors.after(text, n), nullptr);
}

TEST(RecyclingSource, DraftsWhatThePassPredictedAlsoBesideThePath) {
  RecyclingSource source;
  std::any memory;
  source.remember(memory);
  TokenSequence sequence(1, 0, {5, 6}, 100);
  EXPECT_FALSE(source.begin(sequence));
  // A draft of two branches: 7 and 8 follow the text; after 8 the model predicts 9.
  const TokenDraft draft{.tokens = {7, 8}, .parents = {-1, -1}};
  at::Tensor logits = at::zeros({3, 16});
  logits[0][7] = 5.0F;
  logits[1][3] = 5.0F;
  logits[2][9] = 5.0F;
  const VerifiedTokens rows(logits, {{.first = 0, .count = 3}});
  observe(source, sequence, draft, rows);
  // The same last words again, in another text that shares the memory.
  RecyclingSource other;
  other.remember(memory);
  TokenSequence later(1, 1, {1, 5, 6, 8}, 100);
  ASSERT_TRUE(other.begin(later));
  std::vector<TreeChild> children;
  other.children(children);
  ASSERT_FALSE(children.empty());
  EXPECT_EQ(children[0].token, 9);
  other.add(0, 9);
  children.clear();
  other.children(children);
  EXPECT_TRUE(children.empty());  // nothing was seen after 9
}

// Greedy passes leave out logits of rows that the outputs do not reach: the first is NaN then, and
// what lies behind those that were asked for is not read.
TEST(RecyclingSource, OfUnreachedRowsLearnsTheLogitsThatItAskedFor) {
  RecyclingSource source;
  std::any memory;
  source.remember(memory);
  const std::int64_t known = source.unreached_logits();
  at::Tensor logits = at::zeros({2, known + 100});
  logits[0][known + 3] = 5.0F;  // of the reached row all are there
  logits[1][0] = std::numeric_limits<float>::quiet_NaN();
  logits[1][known - 1] = 2.0F;
  logits[1][9] = 1.0F;
  logits[1][known] = 5.0F;
  TokenSequence sequence(1, 0, {5, 6}, 100);
  const TokenDraft draft{.tokens = {7}};
  observe(source, sequence, draft, VerifiedTokens(logits, {{.first = 0, .count = 2}}));
  const auto after = [&](std::vector<Token> text) {
    const auto* found = std::any_cast<Successors>(&memory)->after(text, text.size());
    return found == nullptr ? std::vector<Token>()
                            : std::vector<Token>(found->tokens.begin(), found->tokens.begin() + 2);
  };
  EXPECT_EQ(after({5, 6}).at(0), known + 3);
  EXPECT_EQ(after({6, 7}), (std::vector<Token>{static_cast<Token>(known - 1), 9}));
}

TEST(RecyclingSource, AsksForAllLogitsWhereTheFirstAreNotThoseThatComeOut) {
  RecyclingSource source;
  const std::int64_t few = source.unreached_logits();
  const TokenSequence sequence(1, 0, {5, 6}, 100);
  const auto observed = [&](Token best) {
    at::Tensor logits = at::zeros({1, few + 100});
    logits[0][best] = 1.0F;
    observe(source, sequence, {}, VerifiedTokens(logits, {{.first = 0, .count = 1}}));
    return source.unreached_logits();
  };
  EXPECT_EQ(observed(few), few);  // one alone changes nothing
  for (int i = 0; i < 100; ++i) observed(static_cast<Token>(few + i % 9));
  EXPECT_GT(source.unreached_logits(), few + 100);
  for (int i = 0; i < 100; ++i) observed(static_cast<Token>(few) - 1);
  EXPECT_EQ(source.unreached_logits(), few);
}

// Rows are read by all threads and learned in the draft's order, whoever read them.
TEST(RecyclingSource, LearnsTheSameOnAnyNumberOfThreads) {
  const struct Restored {
    int before = at::get_num_threads();
    ~Restored() { at::set_num_threads(before); }
  } restored;
  const TokenDraft draft{.tokens = {7, 8, 7, 7, 9, 8, 7}, .parents = {-1, -1, 0, 1, 1, 2, 2}};
  const std::vector<std::vector<Token>> paths = {{},     {7},    {8},       {7, 7},
                                                 {8, 7}, {8, 9}, {7, 7, 8}, {7, 7, 7}};
  std::mt19937 random(7);
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    RecyclingSource source;
    std::any memory;
    source.remember(memory);
    Successors expected;
    for (int round = 0; round < 20; ++round) {
      TokenSequence sequence(1, 0, {5, static_cast<Token>(round % 3)}, 100);
      std::vector<float> values;
      for (std::size_t row = 0; row < paths.size(); ++row) {
        const std::vector<float> logits = random_logits(random, 40);
        values.insert(values.end(), logits.begin(), logits.end());
        std::vector<Token> context(sequence.tokens().begin(), sequence.tokens().end());
        context.insert(context.end(), paths[row].begin(), paths[row].end());
        expected.learn(context, Successors::prediction_of(logits));
      }
      const VerifiedTokens rows(at::tensor(values).view({8, 40}), {{.first = 0, .count = 8}});
      observe(source, sequence, draft, rows);
    }
    const Successors& learned = *std::any_cast<Successors>(&memory);
    ASSERT_EQ(learned.size(), expected.size());
    for (Token newest = 0; newest < 3; ++newest) {
      for (const std::vector<Token>& path : paths) {
        std::vector<Token> context = {5, newest};
        context.insert(context.end(), path.begin(), path.end());
        for (std::size_t order = 1; order <= std::min(context.size(), Successors::kOrders);
             ++order) {
          const Successors::Prediction *a = expected.after(context, order),
                                       *b = learned.after(context, order);
          ASSERT_TRUE(a != nullptr && b != nullptr);
          EXPECT_EQ(b->tokens, a->tokens);
          EXPECT_EQ(b->score, a->score);
          EXPECT_EQ(b->stable, a->stable);
        }
      }
    }
  }
}

}  // namespace
}  // namespace forerun
