#include "forerun/core/backoff_ngram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

namespace forerun {
namespace {

constexpr Token kNone = NgramLaw::kNoToken, kBegin = BackoffNgram::kBegin,
                kUnknown = BackoffNgram::kUnknown;

void add(BackoffNgram& law, std::initializer_list<Token> gram, float log10_p, float log10_backoff) {
  EXPECT_TRUE(law.add({gram.begin(), gram.size()}, {log10_p, log10_backoff}));
}

double log10_prob(const BackoffNgram& law, Token before, Token last, Token next) {
  return law.log_prob(before, last, next) / std::log(10.0);
}

// Two tokens, 1 and 2, and n-grams with the unknown one in each place.
TEST(BackoffNgram, WhatWasNeverSeenCountsAsTheUnknownTokenInEveryPlace) {
  BackoffNgram law;
  add(law, {kUnknown}, -2.0F, -0.5F);
  add(law, {kBegin}, -99.0F, -0.25F);
  add(law, {1}, -1.0F, -0.125F);
  add(law, {2}, -1.5F, 0.0F);
  add(law, {kUnknown, 1}, -0.75F, -0.0625F);
  add(law, {1, kUnknown}, -0.875F, 0.0F);
  add(law, {kUnknown, 1, 2}, -0.375F, 0.0F);
  EXPECT_NEAR(log10_prob(law, 8, 1, 2), -0.375, 1e-6);
  EXPECT_NEAR(log10_prob(law, 8, 9, 1), -0.75, 1e-6);
  EXPECT_NEAR(log10_prob(law, 2, 9, 2), -0.5 - 1.5, 1e-6);
  EXPECT_NEAR(log10_prob(law, 8, 1, 9), -0.0625 - 0.875, 1e-6);
  EXPECT_NEAR(log10_prob(law, kNone, kNone, 9), -0.25 - 2.0, 1e-6);
}

TEST(BackoffNgram, WithoutAnUnknownTokenWhatWasNeverSeenIsUnlikelyAndNotImpossible) {
  BackoffNgram law;
  add(law, {1}, -1.0F, -0.125F);
  add(law, {2}, -0.5F, 0.0F);
  add(law, {1, 1}, -0.25F, -0.75F);
  EXPECT_NEAR(log10_prob(law, 1, 1, 9), -0.75 - 0.125 + BackoffNgram::kNever, 1e-6);
  EXPECT_NEAR(log10_prob(law, 9, 9, 9), BackoffNgram::kNever, 1e-6);
  EXPECT_NEAR(log10_prob(law, 9, 9, 1), -1.0, 1e-6);
  EXPECT_NEAR(log10_prob(law, kNone, kNone, 2), -0.5, 1e-6);
}

TEST(BackoffNgram, ListsAnNgramOnce) {
  BackoffNgram law;
  const Token gram[] = {3, 5};
  EXPECT_TRUE(law.add(gram, {-1.0F, 0.0F}));
  EXPECT_FALSE(law.add(gram, {-2.0F, 0.0F}));
  ASSERT_NE(law.find(gram), nullptr);
  EXPECT_EQ(law.find(gram)->log10_p, -1.0F);
  EXPECT_EQ(law.size(1), 0U);
  EXPECT_EQ(law.size(2), 1U);
  EXPECT_EQ(law.largest(), 5);
}

}  // namespace
}  // namespace forerun
