#include "forerun/core/online_ngram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace forerun {
namespace {

constexpr Token kWords = 7;

std::vector<Token> random_text(std::size_t size) {
  std::mt19937 random(11);
  std::vector<Token> out;
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<Token>(random() % kWords));
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
  double below = 1.0 / kWords;
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
  OnlineNgram law(kWords);
  for (const std::size_t size : {1U, 2U, 3U, 17U, 60U}) {  // read piece by piece
    const std::vector<Token> known(text.begin(), text.begin() + static_cast<long>(size));
    law.read(known);
    for (Token a = 0; a < kWords; ++a) {
      for (Token b = 0; b < kWords; ++b) {
        for (Token c = 0; c < kWords; ++c) {
          EXPECT_NEAR(law.log_prob(a, b, c), std::log(by_definition(known, {a, b}, c)), 1e-12);
        }
      }
    }
    const Token none = NgramLaw::kNoToken;
    for (Token b = 0; b < kWords; ++b) {  // where the text begins there is less context
      for (Token c = 0; c < kWords; ++c) {
        EXPECT_NEAR(law.log_prob(none, b, c), std::log(by_definition(known, {b}, c)), 1e-12);
      }
      EXPECT_NEAR(law.log_prob(none, none, b), std::log(by_definition(known, {}, b)), 1e-12);
    }
  }
}

// The newest token after a context, by going back through the text.
std::vector<Token> newest_after(const std::vector<Token>& text, const std::vector<Token>& context) {
  const auto n = static_cast<long>(context.size());
  for (long i = static_cast<long>(text.size()) - 1; i >= n; --i) {
    if (std::equal(context.begin(), context.end(), text.begin() + i - n)) {
      return {text[static_cast<std::size_t>(i)]};
    }
  }
  return {};
}

TEST(OnlineNgram, KnowsTheNewestFollowers) {
  const std::vector<Token> text = random_text(40);
  const Token none = NgramLaw::kNoToken;
  OnlineNgram law(kWords);
  EXPECT_TRUE(law.followers(1, 2).empty());
  for (std::size_t size = 1; size <= text.size(); ++size) {
    const std::vector<Token> known(text.begin(), text.begin() + static_cast<long>(size));
    law.read(known);
    for (Token b = 0; b < kWords; ++b) {
      const std::vector<Token> one = newest_after(known, {b});
      EXPECT_EQ(law.followers(none, b), one);
      for (Token a = 0; a < kWords; ++a) {
        std::vector<Token> both = newest_after(known, {a, b});
        if (!both.empty() && !one.empty() && both != one) both.push_back(one[0]);
        EXPECT_EQ(law.followers(a, b), both.empty() ? one : both);
      }
    }
  }
  EXPECT_TRUE(law.followers(none, none).empty());
}

// The law is evidence * what followed + (1 - evidence) * the law after the last token.
TEST(OnlineNgram, EvidenceIsTheShareOfWhatFollowedBoth) {
  const std::vector<Token> text = {1, 2, 3, 1, 2, 3, 1, 2, 5, 4, 1};
  OnlineNgram law(kWords);
  law.read(text);
  const double share = law.evidence(1, 2);
  EXPECT_DOUBLE_EQ(share, 3.0 / (3.0 + 2.0));
  const double below = std::exp(law.log_prob(NgramLaw::kNoToken, 2, 3));
  EXPECT_NEAR(std::exp(law.log_prob(1, 2, 3)), share * 2.0 / 3.0 + (1.0 - share) * below, 1e-12);
  EXPECT_DOUBLE_EQ(law.evidence(2, 1), 0.0);
  EXPECT_DOUBLE_EQ(law.evidence(4, 1), 0.0);  // the text ends with them
  EXPECT_DOUBLE_EQ(law.evidence(NgramLaw::kNoToken, 2), 0.0);
}

TEST(OnlineNgram, IsALaw) {
  OnlineNgram law(kWords);
  const Token none = NgramLaw::kNoToken;
  EXPECT_NEAR(law.log_prob(none, none, 3), -std::log(7.0), 1e-12);
  law.read(random_text(200));
  for (const Token a : {none, Token{2}}) {
    for (Token b = 0; b < kWords; ++b) {
      double sum = 0.0;
      for (Token c = 0; c < kWords; ++c) sum += std::exp(law.log_prob(a, b, c));
      EXPECT_NEAR(sum, 1.0, 1e-12);
    }
  }
}

}  // namespace
}  // namespace forerun
