#include "forerun/core/logit_changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "forerun/core/sequence.h"

namespace forerun {
namespace {

constexpr std::size_t kVocab = 6;

LogitChanges some() {
  return {.bias = {{0, 2.0F}, {3, -100.0F}, {0, 0.5F}},
          .repetition_penalty = 1.5,
          .frequency_penalty = 0.25,
          .presence_penalty = 0.75};
}

// The definition, token by token.
std::vector<float> reference(const LogitChanges& c, const std::vector<Token>& prompt,
                             const std::vector<Token>& outputs, std::vector<float> logits) {
  for (Token t = 0; t < static_cast<Token>(logits.size()); ++t) {
    double x = static_cast<double>(logits[static_cast<std::size_t>(t)]);
    for (const auto& [token, value] : c.bias) x += token == t ? static_cast<double>(value) : 0.0;
    const auto times = std::count(outputs.begin(), outputs.end(), t);
    if (times > 0 || std::count(prompt.begin(), prompt.end(), t) > 0) {
      x = x > 0.0 ? x / c.repetition_penalty : x * c.repetition_penalty;
    }
    x -= c.frequency_penalty * static_cast<double>(times);
    x -= times > 0 ? c.presence_penalty : 0.0;
    logits[static_cast<std::size_t>(t)] = static_cast<float>(x);
  }
  return logits;
}

TEST(ChangedLogits, AreThoseOfTheDefinitionWhateverTheTextHolds) {
  const std::vector<float> logits = {1.0F, -2.0F, 0.0F, 4.0F, -0.5F, 3.0F};
  const std::vector<std::vector<Token>> texts = {{}, {1}, {5, 1, 5}, {0, 0, 0, 4, 2}};
  for (const auto& prompt : texts) {
    for (const auto& outputs : texts) {
      const std::vector<float> expected = reference(some(), prompt, outputs, logits);
      std::vector<float> at_once = logits, one_by_one = logits;
      ChangedLogits(some(), prompt, outputs).apply_(at_once);
      EXPECT_EQ(at_once, expected);
      ChangedLogits grown(some(), prompt);
      for (const Token t : outputs) grown.push(t);
      for (Token t = 0; t < static_cast<Token>(kVocab); ++t) {
        const auto i = static_cast<std::size_t>(t);
        one_by_one[i] = grown.of(t, logits[i]);
      }
      EXPECT_EQ(one_by_one, expected);
    }
  }
}

TEST(ChangedLogits, PresenceAndFrequencyCountOutputsAlone) {
  const LogitChanges changes{.frequency_penalty = 1.0, .presence_penalty = 1.0};
  const std::vector<Token> prompt = {1, 1, 2};
  std::vector<float> logits(kVocab, 0.0F);
  ChangedLogits(changes, prompt).apply_(logits);
  EXPECT_EQ(logits, std::vector<float>(kVocab, 0.0F));
}

TEST(ChangedLogits, WithoutChangesLogitsKeepTheirBits) {
  ChangedLogits changed(LogitChanges{}, std::vector<Token>{1, 2});
  changed.push(3);
  EXPECT_TRUE(changed.none());
  std::vector<float> logits = {std::nanf(""), 1.0F};
  changed.apply_(logits);
  EXPECT_TRUE(std::isnan(logits[0]));
  EXPECT_EQ(changed.of(3, 0.1F), 0.1F);
}

TEST(ChangedLogits, OfASmallerVocabularyOnlyItsTokensChange) {
  std::vector<float> logits = {1.0F, 1.0F};
  ChangedLogits(some(), {}).apply_(logits);
  EXPECT_EQ(logits, (std::vector<float>{3.5F, 1.0F}));
}

TEST(ChangedLogits, ASequenceCountsItsOutputs) {
  TokenSequence sequence(1, 0, {5}, 8, {}, {.changes = some()});
  sequence.push(1);
  sequence.push(1);
  const std::vector<Token> prompt = {5}, outputs = {1, 1};
  const ChangedLogits expected(some(), prompt, outputs);
  for (Token t = 0; t < static_cast<Token>(kVocab); ++t) {
    EXPECT_EQ(sequence.changed().of(t, 0.7F), expected.of(t, 0.7F));
  }
}

TEST(LogitChanges, WrongOnesAreNamed) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_NO_THROW(some().check(kVocab));
  for (const LogitChanges& wrong :
       {LogitChanges{.repetition_penalty = 0.0}, LogitChanges{.repetition_penalty = std::nan("")},
        LogitChanges{.frequency_penalty = std::nan("")}, LogitChanges{.presence_penalty = HUGE_VAL},
        LogitChanges{.bias = {{6, 1.0F}}}, LogitChanges{.bias = {{-1, 1.0F}}},
        LogitChanges{.bias = {{2, -inf}}}}) {
    EXPECT_THROW(wrong.check(kVocab), std::invalid_argument);
  }
}

}  // namespace
}  // namespace forerun
