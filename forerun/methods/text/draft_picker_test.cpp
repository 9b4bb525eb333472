// The law that a token is picked from is the law that the rule gets, and what it should be: that of
// the network's logits as bias, penalties and grammar change them, at the text's temperature and
// limits.
#include "forerun/methods/text/draft_picker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"
#include "forerun/methods/draft_model/draft_model_texts.h"

namespace forerun {
namespace {

constexpr std::int64_t kVocab = 9;
const std::vector<Token> kTokens = {6, 1, 4, 3, 8};  // of the network's outputs

using Logits = std::vector<float>;
using Scores = std::map<Token, double>;  // of the network's tokens
const std::array<Logits, 3> kRows = {Logits{0.5F, 1.0F, -0.5F, 0.25F, 0.75F},
                                     Logits{1.5F, -1.0F, 1.25F, 0.0F, 0.5F},
                                     Logits{-0.25F, 0.5F, 0.0F, 1.0F, -2.0F}};

TokenSequence text(Rule rule, const SamplingParams& sampling, const LogitChanges& changes = {},
                   std::uint32_t request = 0) {
  return {5, request, {2, 1}, 50, {}, {.sampling = sampling, .rule = rule, .changes = changes}};
}

RngKey key_of(const TokenSequence& sequence, std::size_t k) {
  return sequence.key_at(sequence.tokens().size() + k);
}

Scores scores_of(const Logits& row) {
  Scores out;
  for (std::size_t i = 0; i < row.size(); ++i) out[kTokens[i]] = row[i];
  return out;
}

// A draft of as many tokens as there are rows, none of them used before.
TokenDraft picked(DraftPicker& picker, const TokenSequence& sequence) {
  TokenDraft draft;
  for (std::size_t k = 0; k < kRows.size(); ++k) {
    Logits row = kRows[k];
    const Token token = picker.pick(sequence, row, key_of(sequence, k), draft);
    EXPECT_EQ(draft.tokens.back(), token);
  }
  return draft;
}

void expect_law(const Categorical& law, const Scores& scores, double temperature) {
  double sum = 0.0;
  for (const auto& [token, score] : scores) sum += std::exp(score / temperature);
  ASSERT_EQ(law.size(), static_cast<std::size_t>(kVocab));
  for (Token t = 0; t < kVocab; ++t) {
    const auto found = scores.find(t);
    const double p = found == scores.end() ? 0.0 : std::exp(found->second / temperature) / sum;
    EXPECT_NEAR(law.prob(t), p, 1e-6) << t;
  }
}

TEST(DraftPicker, SampledTokensAreDrawnFromTheLawsThatTheRuleGets) {
  for (const Rule rule : {Rule::kMaximal, Rule::kBlock}) {
    std::map<Token, int> seen;
    for (std::uint32_t request = 0; request < 200; ++request) {
      DraftPicker picker(kVocab, kTokens);
      const TokenSequence sequence = text(rule, {.temperature = 0.6}, {}, request);
      const TokenDraft draft = picked(picker, sequence);
      ASSERT_EQ(draft.laws.size(), 3U);
      for (std::size_t k = 0; k < 3; ++k) {
        expect_law(draft.laws[k], scores_of(kRows[k]), 0.6);
        EXPECT_EQ(draft.tokens[k],
                  draft.laws[k].sample(key_of(sequence, k).uniform(Purpose::kDraft)));
      }
      ++seen[draft.tokens[0]];
    }
    EXPECT_EQ(seen.size(), kTokens.size()) << name_of(rule);  // they do differ
  }
}

TEST(DraftPicker, SharedNoisePicksWithTheNoiseThatDecidesTheOutput) {
  std::map<Token, int> seen;
  for (std::uint32_t request = 0; request < 100; ++request) {
    DraftPicker picker(kVocab, kTokens);
    const TokenSequence sequence = text(Rule::kSharedNoise, {.temperature = 0.8}, {}, request);
    const TokenDraft draft = picked(picker, sequence);
    ASSERT_EQ(draft.laws.size(), 3U);
    for (std::size_t k = 0; k < 3; ++k) {
      expect_law(draft.laws[k], scores_of(kRows[k]), 0.8);
      EXPECT_EQ(draft.tokens[k], sample_shared_noise(draft.laws[k], key_of(sequence, k)).token);
    }
    ++seen[draft.tokens[0]];
  }
  EXPECT_EQ(seen.size(), kTokens.size());
}

TEST(DraftPicker, RulesWithoutLawsGetTheLikeliestTokens) {
  for (const TokenSequence& sequence :
       {text(Rule::kMaximal, {.temperature = 0.0}), text(Rule::kSharedNoise, {.temperature = 0.0}),
        text(Rule::kRatioOnSearch, {.temperature = 0.0}), text(Rule::kMatch, {.temperature = 0.7}),
        text(Rule::kMatch, {.temperature = 0.0})}) {
    DraftPicker picker(kVocab, kTokens);
    const TokenDraft draft = picked(picker, sequence);
    EXPECT_EQ(draft.tokens, (std::vector<Token>{1, 6, 3})) << name_of(sequence.rule());
    EXPECT_TRUE(draft.laws.empty());
  }
}

TEST(DraftPicker, ThePublishedRatioGetsTheLikeliestTokensAndTheirLaws) {
  DraftPicker picker(kVocab, kTokens);
  const TokenDraft draft = picked(picker, text(Rule::kRatioOnSearch, {.temperature = 0.7}));
  EXPECT_EQ(draft.tokens, (std::vector<Token>{1, 6, 3}));
  ASSERT_EQ(draft.laws.size(), 3U);
  for (std::size_t k = 0; k < 3; ++k) expect_law(draft.laws[k], scores_of(kRows[k]), 0.7);
}

TEST(DraftPicker, LimitsHoldWithinTheNetworksTokens) {
  DraftPicker picker(kVocab, kTokens);
  const TokenDraft draft = picked(picker, text(Rule::kMaximal, {.temperature = 1.0, .top_k = 2}));
  expect_law(draft.laws[0], {{1, 1.0}, {8, 0.75}}, 1.0);
  expect_law(draft.laws[1], {{6, 1.5}, {4, 1.25}}, 1.0);
  expect_law(draft.laws[2], {{3, 1.0}, {1, 0.5}}, 1.0);
}

// The tokens of the draft itself count, as the outputs that they may become.
TEST(DraftPicker, BiasAndPenaltiesChangeTheLawAfterTheDraft) {
  const LogitChanges changes{.bias = {{4, 2.0F}, {0, 9.0F}}, .presence_penalty = 1.5};
  for (std::uint32_t request = 0; request < 30; ++request) {
    DraftPicker picker(kVocab, kTokens);
    const TokenSequence sequence = text(Rule::kMaximal, {.temperature = 0.9}, changes, request);
    const TokenDraft draft = picked(picker, sequence);
    for (std::size_t k = 0; k < 3; ++k) {
      Scores scores = scores_of(kRows[k]);
      scores[4] += 2.0;
      for (auto& [token, score] : scores) {
        const auto end = draft.tokens.begin() + static_cast<std::ptrdiff_t>(k);
        if (std::find(draft.tokens.begin(), end, token) != end) score -= 1.5;
      }
      expect_law(draft.laws[k], scores, 0.9);
    }
  }
  DraftPicker picker(kVocab, kTokens);
  const TokenDraft greedy = picked(picker, text(Rule::kMaximal, {.temperature = 0.0}, changes));
  EXPECT_EQ(greedy.tokens, (std::vector<Token>{4, 4, 3}));  // 1.5 to 1; 1.75 to 1.5; 1 to 0.5
}

// A grammar whose allowed tokens depend on the number of outputs alone.
class ByLength final : public TokenGrammar {
 public:
  explicit ByLength(std::vector<std::vector<Token>> allowed) : allowed_(std::move(allowed)) {}
  std::unique_ptr<GrammarWalk> walk() const override { return std::make_unique<Walk>(allowed_); }

 private:
  class Walk final : public GrammarWalk {
   public:
    explicit Walk(const std::vector<std::vector<Token>>& allowed) : allowed_(allowed) {}
    AllowedTokens after(std::span<const Token> outputs) override {
      if (outputs.size() >= allowed_.size()) return {};
      word_ = 0;
      for (const Token t : allowed_[outputs.size()]) word_ |= 1U << static_cast<unsigned>(t);
      return AllowedTokens({&word_, 1});
    }

   private:
    const std::vector<std::vector<Token>>& allowed_;
    std::uint32_t word_ = 0;
  };
  std::vector<std::vector<Token>> allowed_;
};

TEST(DraftPicker, AGrammarForbidsWhatItDoesNotAllowAfterTheDraft) {
  LogitChanges changes;
  changes.grammar =
      std::make_shared<ByLength>(std::vector<std::vector<Token>>{{2, 3, 6, 7}, {0, 1, 4, 8}});
  DraftPicker picker(kVocab, kTokens);
  const TokenDraft draft = picked(picker, text(Rule::kMaximal, {.temperature = 1.0}, changes));
  ASSERT_EQ(draft.laws.size(), 3U);
  expect_law(draft.laws[0], {{3, 0.25}, {6, 0.5}}, 1.0);
  expect_law(draft.laws[1], {{1, -1.0}, {4, 1.25}, {8, 0.5}}, 1.0);
  expect_law(draft.laws[2], scores_of(kRows[2]), 1.0);  // nothing is known there
  const TokenDraft greedy = picked(picker, text(Rule::kMaximal, {.temperature = 0.0}, changes));
  EXPECT_EQ(greedy.tokens, (std::vector<Token>{6, 4, 3}));
}

// Which tokens led there must not decide how long the draft is.
TEST(DraftPicker, WhereAGrammarAllowsNoneOfTheNetworksTokensTheDraftGoesOn) {
  LogitChanges changes;
  changes.grammar =
      std::make_shared<ByLength>(std::vector<std::vector<Token>>{{0, 2, 5}, {1, 3}, {0}});
  DraftPicker picker(kVocab, kTokens);
  const TokenDraft draft = picked(picker, text(Rule::kMaximal, {.temperature = 1.0}, changes));
  ASSERT_EQ(draft.laws.size(), 3U);
  expect_law(draft.laws[0], scores_of(kRows[0]), 1.0);
  expect_law(draft.laws[1], {{1, -1.0}, {3, 0.0}}, 1.0);
  expect_law(draft.laws[2], scores_of(kRows[2]), 1.0);
}

TEST(DraftPicker, AppendsTokensThatWereChosenOtherwise) {
  DraftPicker picker(kVocab, kTokens);
  const LogitChanges changes{.bias = {{8, 1.0F}}, .presence_penalty = 0.5};
  TokenDraft draft;
  const TokenSequence ratio = text(Rule::kRatioOnSearch, {.temperature = 0.5, .top_k = 2}, changes);
  Logits row = kRows[0];
  EXPECT_TRUE(picker.append(ratio, 8, row, draft));
  row = kRows[0];
  EXPECT_FALSE(picker.append(ratio, 3, row, draft));  // not among the two likeliest
  EXPECT_FALSE(picker.append(ratio, 5, row, draft));  // none of the network's
  row = kRows[0];
  EXPECT_TRUE(picker.append(ratio, 1, row, draft));
  EXPECT_EQ(draft.tokens, (std::vector<Token>{8, 1}));
  ASSERT_EQ(draft.laws.size(), 2U);
  expect_law(draft.laws[0], {{8, 1.75}, {1, 1.0}}, 0.5);
  expect_law(draft.laws[1], {{8, 1.25}, {1, 1.0}}, 0.5);
  // Without laws nothing is looked at.
  TokenDraft matched;
  row = kRows[0];
  EXPECT_TRUE(picker.append(text(Rule::kMatch, {.temperature = 0.5, .top_k = 1}), 3, row, matched));
  EXPECT_EQ(matched.tokens, std::vector<Token>{3});
  EXPECT_TRUE(matched.laws.empty());
  EXPECT_EQ(row, kRows[0]);
}

TEST(DraftPicker, AnEndedDraftKeepsItsTokensAndTheirLaws) {
  DraftPicker picker(kVocab, kTokens);
  TokenDraft draft = picked(picker, text(Rule::kMaximal, {.temperature = 1.0}));
  const std::vector<Token> tokens = draft.tokens;
  Logits none(kTokens.size(), std::numeric_limits<float>::quiet_NaN());
  EXPECT_THROW(picker.pick(text(Rule::kMaximal, {.temperature = 1.0}), none, {}, draft),
               std::invalid_argument);
  draft.laws.push_back(draft.laws[0]);  // of a token that was not drawn
  DraftPicker::end(draft);
  EXPECT_EQ(draft.tokens, tokens);
  ASSERT_EQ(draft.laws.size(), 3U);
  for (std::size_t k = 0; k < 3; ++k) expect_law(draft.laws[k], scores_of(kRows[k]), 1.0);
  TokenDraft greedy = picked(picker, text(Rule::kMaximal, {.temperature = 0.0}));
  DraftPicker::end(greedy);
  EXPECT_EQ(greedy.tokens.size(), 3U);
}

// What a draft model takes is picked likewise, with its own place's number.
TEST(DraftModelToken, IsDrawnFromItsLawAsTheDraftsBeforeItChangeIt) {
  const LogitChanges changes{.bias = {{4, 2.0F}}, .presence_penalty = 1.5};
  const Logits logits = {0.5F, 1.0F, -0.5F, 0.25F, 0.75F};
  const std::vector<Token> drafted = {1, 4};
  std::map<Token, int> seen;
  for (std::uint32_t request = 0; request < 50; ++request) {
    const TokenSequence sequence = text(Rule::kMaximal, {.temperature = 0.7}, changes, request);
    Logits row = logits;
    const DraftedToken taken = take_token_(row, sequence, drafted);
    const auto& law = std::get<Categorical>(taken.law);
    std::vector<double> scores(logits.begin(), logits.end());
    scores[4] += 2.0 - 1.5;
    scores[1] -= 1.5;
    double sum = 0.0;
    for (const double score : scores) sum += std::exp(score / 0.7);
    for (Token t = 0; t < 5; ++t) {
      EXPECT_NEAR(law.prob(t), std::exp(scores[static_cast<std::size_t>(t)] / 0.7) / sum, 1e-6);
    }
    EXPECT_EQ(taken.token, law.sample(key_of(sequence, 2).uniform(Purpose::kDraft)));
    ++seen[taken.token];
  }
  EXPECT_GT(seen.size(), 2U);
}

// Memory is that of one round.
TEST(DraftPicker, LawsOfANewRoundStandWhereThoseOfTheOldDid) {
  DraftPicker picker(kVocab, kTokens);
  const TokenSequence sequence = text(Rule::kMaximal, {.temperature = 1.0});
  const TokenDraft first = picked(picker, sequence);
  picker.begin_round();
  const TokenDraft second = picked(picker, sequence);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(second.laws[k].log_weights().data(), first.laws[k].log_weights().data());
  }
}

}  // namespace
}  // namespace forerun
