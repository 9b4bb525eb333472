#include "forerun/core/online_ngram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace forerun {
namespace {

constexpr Token kVocab = 7;

std::vector<Token> random_text(std::size_t size) {
  std::mt19937 random(11);
  std::vector<Token> out;
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<Token>(random() % kVocab));
  return out;
}

// By the definition, from the text alone.
double by_definition(const std::vector<Token>& text, std::vector<Token> context, Token next) {
  const std::size_t n = context.size();
  double tokens = 0.0, count = 0.0;
  std::set<Token> different;
  for (std::size_t i = n; i < text.size(); ++i) {
    if (!std::equal(context.begin(), context.end(), text.begin() + static_cast<long>(i - n))) {
      continue;
    }
    ++tokens;
    count += text[i] == next ? 1.0 : 0.0;
    different.insert(text[i]);
  }
  double below = 1.0 / kVocab;
  if (n > 0) {
    context.erase(context.begin());
    below = by_definition(text, context, next);
  }
  if (tokens == 0.0) return below;
  const auto kinds = static_cast<double>(different.size());
  return (count + kinds * below) / (tokens + kinds);
}

TEST(OnlineNgram, IsWittenBellsLaw) {
  const std::vector<Token> text = random_text(60);
  OnlineNgram law(kVocab);
  for (const std::size_t size : {1U, 2U, 3U, 17U, 60U}) {  // read piece by piece
    const std::vector<Token> known(text.begin(), text.begin() + static_cast<long>(size));
    law.read(known);
    for (Token a = 0; a < kVocab; ++a) {
      for (Token b = 0; b < kVocab; ++b) {
        for (Token c = 0; c < kVocab; ++c) {
          EXPECT_NEAR(law.log_prob(a, b, c), std::log(by_definition(known, {a, b}, c)), 1e-12);
        }
      }
    }
    const Token none = NgramLaw::kNoToken;
    for (Token b = 0; b < kVocab; ++b) {  // where the text begins there is less context
      for (Token c = 0; c < kVocab; ++c) {
        EXPECT_NEAR(law.log_prob(none, b, c), std::log(by_definition(known, {b}, c)), 1e-12);
      }
      EXPECT_NEAR(law.log_prob(none, none, b), std::log(by_definition(known, {}, b)), 1e-12);
    }
  }
}

TEST(OnlineNgram, IsALaw) {
  OnlineNgram law(kVocab);
  const Token none = NgramLaw::kNoToken;
  EXPECT_NEAR(law.log_prob(none, none, 3), -std::log(7.0), 1e-12);
  law.read(random_text(200));
  for (const Token a : {none, Token{2}}) {
    for (Token b = 0; b < kVocab; ++b) {
      double sum = 0.0;
      for (Token c = 0; c < kVocab; ++c) sum += std::exp(law.log_prob(a, b, c));
      EXPECT_NEAR(sum, 1.0, 1e-12);
    }
  }
}

}  // namespace
}  // namespace forerun
