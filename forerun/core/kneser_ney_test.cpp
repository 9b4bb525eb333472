#include "forerun/core/kneser_ney.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace forerun {
namespace {

using Document = std::vector<Token>;

// Tokens that depend on the one before, so that n-grams of all counts appear.
std::vector<Document> random_documents(std::size_t n, Token vocab) {
  std::mt19937 random(7);
  std::vector<Document> out(n);
  for (Document& document : out) {
    Token last = 0;
    for (std::size_t length = random() % 30; document.size() < length;) {
      const auto step =
          static_cast<Token>(std::pow(static_cast<double>(random() % 1000) / 1000.0, 3) * vocab);
      document.push_back(last = (last * 5 + step) % vocab);
    }
  }
  return out;
}

BackoffNgram estimated(const std::vector<Document>& documents) {
  const std::vector<std::span<const Token>> views(documents.begin(), documents.end());
  return estimate_kneser_ney(views);
}

TEST(KneserNey, IsALawAfterEveryContext) {
  const Token vocab = 25;
  const BackoffNgram law = estimated(random_documents(300, vocab));
  std::vector<Token> next = {BackoffNgram::kEnd, BackoffNgram::kUnknown};
  for (Token t = 0; t < vocab; ++t) next.push_back(t);
  std::vector<Token> contexts = next;
  contexts.push_back(NgramLaw::kNoToken);
  for (const Token before : contexts) {
    for (const Token last : contexts) {
      if (last == NgramLaw::kNoToken && before != NgramLaw::kNoToken) continue;
      double sum = 0.0;
      for (const double p : law.log_probs(before, last, next)) sum += std::exp(p);
      EXPECT_NEAR(sum, 1.0, 1e-5) << before << " " << last;
    }
  }
}

// "1 2" is seen often, but "2" after nothing else: as a single token it counts once.
TEST(KneserNey, ATokenThatFollowsOneOtherIsUnlikelyAfterNewOnes) {
  std::vector<Document> documents;
  for (int i = 0; i < 8; ++i) {
    documents.push_back({1, 2});
    documents.push_back({static_cast<Token>(10 + i), 3});
  }
  const BackoffNgram law = estimated(documents);
  EXPECT_GT(law.log_prob(NgramLaw::kNoToken, 1, 2), std::log(0.5));
  EXPECT_LT(law.log_prob(4, 5, 2), law.log_prob(4, 5, 3) - 1.0);
}

TEST(KneserNey, ListsWhatItHasSeen) {
  const BackoffNgram law = estimated({{4, 5, 6}, {}});
  EXPECT_EQ(law.size(1), 6U);  // three tokens, the beginning, the end, the unknown
  EXPECT_EQ(law.grams(2), (std::vector<Document>{{4, 5},
                                                 {5, 6},
                                                 {6, BackoffNgram::kEnd},
                                                 {BackoffNgram::kBegin, 4},
                                                 {BackoffNgram::kBegin, BackoffNgram::kEnd}}));
  EXPECT_EQ(law.size(3), 3U);
  EXPECT_EQ(law.largest(), 6);
  const Token begin = BackoffNgram::kBegin;
  ASSERT_NE(law.find({&begin, 1}), nullptr);
  EXPECT_EQ(law.find({&begin, 1})->log10_p, -99.0F);  // it never comes next
}

// Every order has too few n-grams of some count for discounts of its own, here by hand: 0.5, 1 and
// 1.5 of n-grams that count 1, 2 and more.
TEST(KneserNey, OrdersWithFewCountsHaveFixedDiscounts) {
  std::vector<Document> documents = {{8}};
  for (int i = 0; i < 3; ++i) documents.insert(documents.end(), {{5}, {6}, {7}});
  for (int i = 0; i < 2; ++i) documents.push_back({9});
  const BackoffNgram law = estimated(documents);
  const Token none = NgramLaw::kNoToken, end = BackoffNgram::kEnd;
  // Single tokens: five follow one other token, the end follows five. Seven with the unknown one.
  const double uniform = (5 * 0.5 + 1.5) / 10 / 7;
  const double token = 0.5 / 10 + uniform, ends = 3.5 / 10 + uniform;
  EXPECT_NEAR(law.log_prob(4, 4, 8), std::log(token), 1e-6);
  EXPECT_NEAR(law.log_prob(4, 4, 4), std::log(uniform), 1e-6);
  // Twelve documents begin, with tokens seen three times, twice and once.
  const double left = (3 * 1.5 + 1.0 + 0.5) / 12;
  EXPECT_NEAR(law.log_prob(none, none, 5), std::log(1.5 / 12 + left * token), 1e-6);
  EXPECT_NEAR(law.log_prob(none, none, 9), std::log(1.0 / 12 + left * token), 1e-6);
  EXPECT_NEAR(law.log_prob(none, none, 8), std::log(0.5 / 12 + left * token), 1e-6);
  // Of n-grams that count 3, 2 and 1 and have no other ending, half is left.
  const double after_any = 0.5 + 0.5 * ends;
  for (const Token t : {5, 9, 8}) {
    EXPECT_NEAR(law.log_prob(none, t, end), std::log(0.5 + 0.5 * after_any), 1e-6) << t;
    EXPECT_NEAR(law.log_prob(4, t, end), std::log(after_any), 1e-6) << t;
  }
}

TEST(KneserNey, RefusesNothingAndWrongIds) {
  EXPECT_THROW(estimated({}), std::invalid_argument);
  EXPECT_THROW(estimated({{1, -1}}), std::invalid_argument);
  EXPECT_THROW(estimated({{BackoffNgram::kUnknown}}), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
