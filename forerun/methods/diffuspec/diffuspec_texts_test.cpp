// Predictions and length controls, against one pass over the whole text.
#include "forerun/methods/diffuspec/diffuspec_texts.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "tests/support/searched_drafts.h"

namespace forerun {
namespace {

TEST(DiffuSpecTexts, PaperControlFollowsTheDraftsBeforeTheirFirstEnd) {
  const auto m = method();
  m->options.control = PlaceControl::kPaper;
  m->options.least = 2;
  m->options.most = 7;
  TokenSequence sequence = sequence_of(text_of(9, 4), 1);
  const TokenSequence* const one = &sequence;
  DiffuSpecTexts texts(m);
  DraftWindow window({.least = 2, .most = 7});
  std::set<std::size_t> lengths, generated_of;
  for (std::size_t round = 0; round < 12; ++round) {
    lengths.insert(window.length());
    ASSERT_EQ(texts.places(sequence), window.length()) << round;
    const at::Tensor laws = laws_of(*m, sequence.tokens(), window.length());
    std::vector<Token> drafted;
    for (std::size_t i = 0; i < window.length(); ++i) {
      drafted.push_back(likeliest_of(*m, laws, i, 1)[0].token);
    }
    m->end.clear();
    if (round % 3 != 0) m->end = {drafted[drafted.size() / 2]};
    texts.predict({&one, 1});
    ASSERT_EQ(texts.predicted(1), window.length());
    const auto generated = static_cast<std::size_t>(
        std::find_if(drafted.begin(), drafted.end(), [&](Token t) { return m->ends(t); }) -
        drafted.begin());
    const std::size_t accepted = round % 4 < 2 ? generated : generated / 2;
    generated_of.insert(generated);
    texts.observe(1, accepted);
    window.observe(generated, accepted);
    EXPECT_EQ(texts.predicted(1), 0U);
    sequence.push(static_cast<Token>(20 + round));
  }
  EXPECT_GT(lengths.size(), 2U);
  EXPECT_GT(generated_of.size(), 2U);
}

std::shared_ptr<DiffuSpec> fail_fast(double confidence) {
  const auto m = method();
  m->options.control = PlaceControl::kFailFast;
  m->options.least = 2;
  m->options.most = 8;
  m->options.confidence = confidence;
  return m;
}

std::size_t predicted_of(const std::shared_ptr<DiffuSpec>& m, const std::vector<Token>& text) {
  DiffuSpecTexts texts(m);
  const TokenSequence sequence = sequence_of(text, 1);
  const TokenSequence* const one = &sequence;
  texts.predict({&one, 1});
  return texts.predicted(1);
}

TEST(DiffuSpecTexts, FailFastAddsABlockWhileEveryPredictionIsConfident) {
  const std::vector<Token> text = text_of(9, 4);
  EXPECT_EQ(predicted_of(fail_fast(1.1), text), 2U);
  EXPECT_EQ(predicted_of(fail_fast(0.0), text), 8U);
  const auto uneven = fail_fast(0.0);
  uneven->options.most = 7;
  EXPECT_EQ(predicted_of(uneven, text), 6U);
  // The less confident one of a block decides, be it the first or the second.
  std::size_t first = 0, second = 0;
  for (Token salt = 0; salt < 12; ++salt) {
    const std::vector<Token> other = text_of(9, salt * 3);
    const at::Tensor most = std::get<0>(laws_of(*uneven, other, 2).exp().max(1));
    const double a = most[0].item<double>(), b = most[1].item<double>();
    (a < b ? first : second) += 1;
    EXPECT_EQ(predicted_of(fail_fast((a + b) / 2), other), 2U);
    EXPECT_GT(predicted_of(fail_fast(std::min(a, b) * 0.999), other), 2U);
  }
  EXPECT_GT(first, 0U);
  EXPECT_GT(second, 0U);
}

TEST(DiffuSpecTexts, FailFastPredictsAfterTheLikeliestTokensOfTheBlocksBefore) {
  const auto m = fail_fast(0.0);
  const std::vector<Token> text = text_of(9, 4);
  const TokenSequence sequence = sequence_of(text, 1);
  const TokenSequence* const one = &sequence;
  DiffuSpecTexts texts(m);
  texts.predict({&one, 1});
  ASSERT_EQ(texts.predicted(1), 8U);
  std::vector<Token> given;
  for (std::size_t have = 0; have < 8; have += 2) {
    std::vector<Token> places = given;
    places.resize(have + 2, kMaskedToken);
    const at::Tensor laws = laws_of(*m, text, places);
    for (std::size_t i = have; i < have + 2; ++i) {
      const auto row = texts.logits(1, i);
      const at::Tensor got = at::log_softmax(
          at::tensor(std::vector<float>(row.begin(), row.end())).to(at::kDouble), 0);
      EXPECT_LT((got - laws[static_cast<std::int64_t>(i)]).abs().max().item<double>(), 1e-4) << i;
      given.push_back(likeliest_of(*m, laws, i, 1)[0].token);
    }
  }
}

double difference(const DiffuSpecTexts& texts, SequenceId id, const at::Tensor& laws) {
  double out = 0.0;
  for (std::size_t i = 0; i < texts.predicted(id); ++i) {
    const auto row = texts.logits(id, i);
    const at::Tensor got =
        at::log_softmax(at::tensor(std::vector<float>(row.begin(), row.end())).to(at::kDouble), 0);
    out = std::max(out, (got - laws[static_cast<std::int64_t>(i)]).abs().max().item<double>());
  }
  return out;
}

TEST(DiffuSpecTexts, PredictTheSameFromWhatTheyKeep) {
  const auto m = method();
  DiffuSpecTexts texts(m);
  TokenSequence sequence = sequence_of(text_of(9, 4), 1);
  const TokenSequence* const one = &sequence;
  for (const std::size_t more : {0, 0, 1, 4}) {  // a round may come to nothing
    for (std::size_t i = 0; i < more; ++i) sequence.push(static_cast<Token>(30 + i));
    texts.predict({&one, 1});
    ASSERT_EQ(texts.predicted(1), kBlock);
    EXPECT_LT(difference(texts, 1, laws_of(*m, sequence.tokens(), kBlock)), 1e-4);
  }
  // Another text that begins like it, and goes on by itself.
  EXPECT_TRUE(texts.share(1, 2, 6));
  std::vector<Token> begun(sequence.tokens().begin(), sequence.tokens().begin() + 6);
  begun.insert(begun.end(), {50, 51, 52, 53, 54, 55, 56, 57, 58});
  const TokenSequence other = sequence_of(begun, 2);
  const TokenSequence* const two = &other;
  texts.predict({&two, 1});
  EXPECT_EQ(texts.predicted(1), 0U);  // not asked for in this round
  ASSERT_EQ(texts.predicted(2), kBlock);
  EXPECT_LT(difference(texts, 2, laws_of(*m, begun, kBlock)), 1e-4);
}

// The proxy is what the text says at the time.
TEST(DiffuSpecTexts, TrigramsAreThoseOfTheWholeText) {
  const auto m = method();
  DiffuSpecTexts texts(m);
  TokenSequence sequence = sequence_of(text_of(9, 4), 1);
  for (int round = 0; round < 3; ++round) {
    OnlineNgram trigrams(m->vocab);
    trigrams.read(sequence.tokens());
    const NgramLaw& law = texts.law(sequence);
    for (const Token t : sequence.tokens()) {
      EXPECT_EQ(law.log_prob(4, 7, t), trigrams.log_prob(4, 7, t));
    }
    for (const Token t : {4, 7, 70}) sequence.push(t);
  }
}

std::vector<Token> last(std::span<const Token> text, std::size_t n) {
  return {text.end() - static_cast<std::ptrdiff_t>(std::min(n, text.size())), text.end()};
}

// Long texts are read in pieces, over rounds that predict nothing.
TEST(DiffuSpecTexts, AreReadInPiecesIfTheyAreLong) {
  const auto m = method();
  m->options.context = 180;
  DiffuSpecTexts texts(m);
  const std::vector<Token> text = text_of(200, 4);
  const TokenSequence sequence = sequence_of(text, 1);
  const TokenSequence* const one = &sequence;
  EXPECT_EQ(texts.unread(sequence), 180U);
  texts.predict({&one, 1});
  EXPECT_EQ(texts.predicted(1), 0U);
  EXPECT_EQ(texts.unread(sequence), 52U);
  texts.predict({&one, 1});
  EXPECT_EQ(texts.unread(sequence), 0U);
  EXPECT_EQ(texts.prefilled().tokens, 179U);  // the newest token is read with the places
  ASSERT_EQ(texts.predicted(1), kBlock);
  EXPECT_LT(difference(texts, 1, laws_of(*m, last(text, 180), kBlock)), 1e-3);
}

TEST(DiffuSpecTexts, BeginWithTheLastTokensAndKeepWhatFollows) {
  const auto m = method();
  m->options.context = 12;
  DiffuSpecTexts texts(m);
  TokenSequence sequence = sequence_of(text_of(90, 4), 1);
  const TokenSequence* const one = &sequence;
  const auto predicts_from = [&](std::size_t tokens) {
    EXPECT_EQ(texts.unread(sequence), 0U);
    texts.predict({&one, 1});
    EXPECT_EQ(texts.predicted(1), kBlock);
    EXPECT_LT(difference(texts, 1, laws_of(*m, last(sequence.tokens(), tokens), kBlock)), 1e-4);
  };
  predicts_from(12);
  for (int i = 0; i < 5; ++i) sequence.push(static_cast<Token>(30 + i));
  predicts_from(17);
  // Texts that begin like it predict what they would alone, whether they use what was read or not.
  for (const auto& [id, shared, more] :
       {std::tuple{SequenceId{2}, 85, 9}, {3, 85, 5}, {4, 40, 0}}) {
    EXPECT_TRUE(texts.share(1, id, shared));
    std::vector<Token> begun(sequence.tokens().begin(), sequence.tokens().begin() + shared);
    for (int i = 0; i < more; ++i) begun.push_back(static_cast<Token>(50 + i));
    TokenSequence other = sequence_of(begun, id);
    const TokenSequence* const its = &other;
    for (const std::size_t read : {12, 13}) {
      texts.predict({&its, 1});
      ASSERT_EQ(texts.predicted(id), kBlock);
      EXPECT_LT(difference(texts, id, laws_of(*m, last(other.tokens(), read), kBlock)), 1e-4);
      other.push(7);
    }
  }
  // More than that was written without it: it begins anew.
  for (int i = 0; i < 13; ++i) sequence.push(static_cast<Token>(40 + i));
  predicts_from(12);
}

TEST(DiffuSpecTexts, GoOnWhereTheContextEnds) {
  const auto m = method();
  const auto context = static_cast<std::size_t>(m->network.context());
  DiffuSpecTexts texts(m);
  TokenSequence sequence = sequence_of(text_of(9, 4), 1);
  const TokenSequence* const one = &sequence;
  std::size_t anew = 0;
  for (std::size_t i = 0; i < 2 * context; ++i) {
    ASSERT_EQ(texts.places(sequence), kBlock) << i;
    if (i % 8 == 0) {
      texts.predict({&one, 1});
      ASSERT_EQ(texts.predicted(1), kBlock) << i;
    }
    anew += sequence.tokens().size() > context ? 1 : 0;
    sequence.push(static_cast<Token>(30 + i % 20));
  }
  EXPECT_GT(anew, 0U);
}

}  // namespace
}  // namespace forerun
