// Laws of slots with the trigrams of the text, against their definition.
#include "forerun/methods/tree/slot_source.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/ngram_key.h"
#include "forerun/core/online_ngram.h"
#include "forerun/core/rng_key.h"
#include "forerun/core/shared_noise.h"

namespace forerun {
namespace {

constexpr Token kSlotVocab = 40;

// What a token before a slot adds to a logit of a source that is conditioned.
float added(Token previous, Token token) {
  return std::cos(static_cast<float>(5 * previous + token));
}

// Every slot has the same logits. Keeps the candidates as they are ranked.
class OneLaw final : public SlotSource {
 public:
  explicit OneLaw(std::vector<float> logits, bool conditioned = false)
      : logits_(std::move(logits)), conditioned_(conditioned) {}
  std::size_t made() const override { return kSlots; }

  // Of the newest node, by token.
  std::map<Token, double> laws() const { return laws_; }
  double sure = 0.0;

 private:
  static constexpr std::size_t kSlots = 3;
  std::size_t slots_of(const TokenSequence&) override { return kSlots; }
  SlotCandidates likeliest(std::size_t) const override {
    return slot_candidates(logits_, temperature(), bounds_of(logits_));
  }
  bool conditioned() const override { return conditioned_; }
  double confidence(const Node&, Token) const override { return sure; }
  void condition(std::size_t, Token previous, std::span<const std::int32_t> columns,
                 std::span<float> logits) const override {
    for (std::size_t i = 0; i < columns.size(); ++i) logits[i] += added(previous, columns[i]);
  }
  void weigh(const Node& node, std::vector<Ranked>& candidates) override {
    SlotSource::weigh(node, candidates);
    laws_.clear();
    for (const Ranked& r : candidates) laws_[r.token] = r.q;
  }

  std::vector<float> logits_;
  bool conditioned_;
  std::map<Token, double> laws_;
};

std::vector<float> sines() {
  std::vector<float> out;
  for (Token t = 0; t < kSlotVocab; ++t) out.push_back(std::sin(static_cast<float>(3 * t)));
  return out;
}

TokenSequence sequence_of(std::vector<Token> text) {
  return {7, 1, std::move(text), 100, {}, {.sampling = {.temperature = 0.0}, .rule = Rule::kMatch}};
}

// Of all candidates, by the definition: three parts of the slot's law and one of the trigrams'.
void expect_mixed(const OneLaw& source, const std::vector<float>& logits, const OnlineNgram& law,
                  Token before, Token last) {
  std::vector<double> mixed;
  double sum = 0.0, all = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  for (Token t = 0; t < kSlotVocab; ++t) {
    mixed.push_back(0.75 * std::exp(static_cast<double>(logits[static_cast<std::size_t>(t)])) /
                        sum +
                    0.25 * std::exp(law.log_prob(before, last, t)));
    all += mixed.back();
  }
  ASSERT_EQ(source.laws().size(), std::size_t{kSlotVocab});
  for (const auto& [t, p] : source.laws()) {
    EXPECT_NEAR(p, mixed[static_cast<std::size_t>(t)] / all, 1e-6) << t;
  }
}

// The same of a source that is alone: by the evidence for what followed the two tokens, with the
// newest followers of theirs that the network does not know.
void expect_mixed_alone(const OneLaw& source, const std::vector<float>& logits,
                        const OnlineNgram& law, Token before, Token last) {
  const double share = 0.1 + 0.6 * law.evidence(before, last);
  double sum = 0.0, all = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  std::map<Token, double> mixed;
  for (Token t = 0; t < kSlotVocab; ++t) {
    mixed[t] =
        (1.0 - share) * std::exp(static_cast<double>(logits[static_cast<std::size_t>(t)])) / sum;
  }
  for (const Token t : law.followers(before, last)) mixed[t] += 0.0;
  for (auto& [t, p] : mixed) all += p += share * std::exp(law.log_prob(before, last, t));
  ASSERT_EQ(source.laws().size(), mixed.size());
  for (const auto& [t, p] : source.laws()) EXPECT_NEAR(p, mixed.at(t) / all, 1e-6) << t;
}

// A source whose tree grows after a text.
struct Growing {
  Growing(const std::vector<Token>& text, bool alone) : sequence(sequence_of(text)) {
    if (alone) source.alone();
    law.read(text);
    EXPECT_TRUE(source.begin(sequence));
    source.children(children);
  }
  void add(std::size_t parent, Token token) {
    source.add(parent, token);
    source.children(children);
  }

  const std::vector<float> logits = sines();
  OneLaw source{logits};
  const TokenSequence sequence;
  OnlineNgram law{ngram_key::kMostTokens};
  std::vector<TreeChild> children;
};

TEST(SlotSource, MixesTrigramsOfTheTextIntoItsLaws) {
  Growing g({4, 5, 6, 7, 1, 4, 5, 6, 9, 2, 4, 5}, false);
  expect_mixed(g.source, g.logits, g.law, 4, 5);
  EXPECT_EQ(g.children.front().token, 6);  // whatever the slot's own law says
  g.add(TokenTree::kRoot, 6);
  expect_mixed(g.source, g.logits, g.law, 5, 6);
  g.add(1, 9);
  expect_mixed(g.source, g.logits, g.law, 6, 9);
  g.add(TokenTree::kRoot, 9);  // another node of a slot that was asked before
  expect_mixed(g.source, g.logits, g.law, 5, 9);
}

// Nodes of one depth have the law of their slot given their own token.
TEST(SlotSource, ConditionsEachNodeOnItsOwnToken) {
  const std::vector<Token> text{4, 5, 6, 7, 1, 4, 5};
  const TokenSequence sequence = sequence_of(text);
  OneLaw source(sines(), true);
  OnlineNgram law(ngram_key::kMostTokens);
  law.read(text);
  std::vector<TreeChild> children;
  ASSERT_TRUE(source.begin(sequence));
  source.children(children);
  for (const Token node : {6, 9, 21}) {
    source.add(TokenTree::kRoot, node);
    source.children(children);
    std::vector<float> given = sines();
    for (Token t = 0; t < kSlotVocab; ++t) given[static_cast<std::size_t>(t)] += added(node, t);
    expect_mixed(source, given, law, 5, node);
  }
}

// A bias changes the text's part of a law as it changes the network's; however large, what it
// forces comes first and probabilities stay numbers.
TEST(SlotSource, ABiasChangesBothParts) {
  const std::vector<Token> text{4, 5, 6, 7, 1, 4, 5, 6, 9, 2, 4, 5};
  const std::vector<float> logits = sines();
  OnlineNgram law(ngram_key::kMostTokens);
  law.read(text);
  for (const float bias : {-1.5F, 2.0F, 100.0F, 2000.0F}) {
    for (const double temperature : {0.1, 1.0}) {
      const TokenSequence sequence{7,
                                   1,
                                   text,
                                   100,
                                   {},
                                   {.sampling = {.temperature = temperature},
                                    .rule = Rule::kMatch,
                                    .changes = {.bias = {{30, bias}}}}};
      OneLaw source(logits);
      std::vector<TreeChild> children;
      ASSERT_TRUE(source.begin(sequence));
      source.children(children);
      for (const auto& [token, p] : source.laws()) ASSERT_TRUE(std::isfinite(p)) << token;
      if (bias > 10.0F) {
        EXPECT_EQ(children.at(0).token, 30) << temperature << ' ' << bias;
      }
    }
    if (bias > 10.0F) continue;
    OneLaw source(logits);
    std::vector<TreeChild> children;
    const TokenSequence sequence{
        7, 1, text, 100, {}, {.rule = Rule::kMatch, .changes = {.bias = {{30, bias}}}}};
    ASSERT_TRUE(source.begin(sequence));
    source.children(children);
    double sum = 0.0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    // The network's law is normalised after the bias.
    const double z = 1.0 + (std::exp(static_cast<double>(bias)) - 1.0) *
                               std::exp(static_cast<double>(logits[30])) / sum;
    const auto of = [&](Token t, double change) {
      const double own =
          std::exp(static_cast<double>(logits[static_cast<std::size_t>(t)]) + change);
      return 0.75 * own / sum / z + 0.25 * std::exp(law.log_prob(4, 5, t) + change);
    };
    EXPECT_NEAR(source.laws().at(30) / source.laws().at(31),
                of(30, static_cast<double>(bias)) / of(31, 0.0), 1e-4);
  }
}

TEST(SlotSource, AloneItTrustsTheTextByEvidenceAndDraftsItsOtherTokens) {
  Growing g({4, 5, 77, 7, 5, 88, 4, 5, 77, 2, 9, 4, 5}, true);
  expect_mixed_alone(g.source, g.logits, g.law, 4, 5);
  EXPECT_EQ(g.source.laws().size(), std::size_t{kSlotVocab} + 1);
  EXPECT_EQ(g.children.front().token, 77);  // which the network cannot draft
  g.add(TokenTree::kRoot, 77);
  expect_mixed_alone(g.source, g.logits, g.law, 5, 77);
  g.add(1, 30);  // nothing followed
  expect_mixed_alone(g.source, g.logits, g.law, 77, 30);
}

// Other texts, and one of the same id after it was forgotten, have trigrams of their own.
TEST(SlotSource, TrigramsAreThoseOfTheTextAlone) {
  const std::vector<float> logits(kSlotVocab, 0.0F);
  OneLaw source(logits);
  std::vector<TreeChild> children;
  for (const std::vector<Token>& text :
       {std::vector<Token>{1, 2, 3, 1, 2}, std::vector<Token>{1, 2, 8, 5, 7, 1, 2}}) {
    const TokenSequence sequence = sequence_of(text);
    OnlineNgram law(ngram_key::kMostTokens);
    law.read(text);
    ASSERT_TRUE(source.begin(sequence));
    source.children(children);
    expect_mixed(source, logits, law, 1, 2);
    source.forget(sequence.id());
  }
  // The first token of a text has none before it.
  const TokenSequence one = sequence_of({3});
  OnlineNgram law(ngram_key::kMostTokens);
  law.read(std::vector<Token>{3});
  ASSERT_TRUE(source.begin(one));
  source.children(children);
  expect_mixed(source, logits, law, NgramLaw::kNoToken, 3);
}

// Noise does not choose what a bias forbids, though no other candidate be left.
TEST(SlotSource, DraftsNothingThatABiasForbids) {
  std::vector<float> logits(kSlotVocab, 0.0F);
  logits[3] = 60.0F;
  for (const Rule rule : {Rule::kSharedNoise, Rule::kMatch}) {
    for (const double temperature : {0.1, 1.0}) {
      for (const float bias : {0.0F, -100.0F}) {
        const TokenSequence sequence{7,
                                     1,
                                     {4, 5, 6},
                                     100,
                                     {},
                                     {.sampling = {.temperature = temperature},
                                      .rule = rule,
                                      .changes = {.bias = {{3, bias}}}}};
        OneLaw source(logits);
        std::vector<TreeChild> children;
        ASSERT_TRUE(source.begin(sequence));
        source.children(children);
        if (bias == 0.0F) {
          ASSERT_FALSE(children.empty());
          EXPECT_EQ(children[0].token, 3);
        } else if (rule == Rule::kSharedNoise) {
          for (const TreeChild& child : children) EXPECT_NE(child.token, 3) << temperature;
        }
      }
    }
  }
}

TEST(SlotSource, AConfidenceThatIsNoNumberIsNone) {
  const TokenSequence sequence = sequence_of({4, 5, 6});
  std::vector<TreeChild> cells[2];
  for (const bool broken : {false, true}) {
    OneLaw source(sines());
    source.sure = broken ? std::nan("") : 0.0;
    ASSERT_TRUE(source.begin(sequence));
    source.children(cells[broken ? 1 : 0]);
  }
  ASSERT_FALSE(cells[0].empty());
  EXPECT_EQ(cells[0][0].cell.cell, cells[1][0].cell.cell);
}

// Under shared noise the first choices are those that the noise favours, by the law at the text's
// temperature; top-k leaves out what it would have favoured of the others.
TEST(SlotSource, RanksByTheNoiseThatDecides) {
  for (const std::uint32_t top_k : {0U, 12U}) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
      const TokenSequence sequence{
          7,
          seed,
          {4, 5, 6, 1, 4, 5},
          100,
          {},
          {.sampling = {.temperature = 0.9, .top_k = top_k}, .rule = Rule::kSharedNoise}};
      OneLaw source(sines());
      std::vector<TreeChild> children;
      ASSERT_TRUE(source.begin(sequence));
      source.children(children);
      std::vector<std::pair<double, Token>> laws;
      for (const auto& [token, p] : source.laws()) laws.emplace_back(-p, token);
      std::sort(laws.begin(), laws.end());
      if (top_k > 0) laws.resize(static_cast<std::size_t>(top_k));
      for (auto& [score, token] : laws) {
        score = -std::log(-score) - shared_noise(token, sequence.key_at(sequence.tokens().size()));
      }
      std::sort(laws.begin(), laws.end());
      ASSERT_EQ(children.size(), 8U);
      double sum = 0.0;  // how likely each is the first choice, by the scores at a temperature
      for (const auto& [score, token] : laws) sum += std::exp((laws[0].first - score) / 0.8);
      for (std::size_t i = 0; i < children.size(); ++i) {
        EXPECT_EQ(children[i].token, laws[i].second);
        const double p = std::exp((laws[0].first - laws[i].first) / 0.8) / sum;
        const std::vector<double> bounds{0.02, 0.06, 0.15, 0.3, 0.5, 0.7, 0.87};
        EXPECT_EQ(children[i].cell.group,
                  std::upper_bound(bounds.begin(), bounds.end(), p) - bounds.begin());
      }
    }
  }
}

// Slots of unlike laws, which count how often they are asked for.
class UnlikeSlots final : public SlotSource {
 public:
  explicit UnlikeSlots(bool abreast) : abreast_(abreast) {}
  std::size_t made() const override { return kSlots; }
  int asked() const { return asked_; }

 private:
  static constexpr std::size_t kSlots = 5;
  std::size_t slots_of(const TokenSequence&) override { return kSlots; }
  SlotCandidates likeliest(std::size_t slot) const override {
    ++asked_;
    std::vector<float> logits;
    for (Token t = 0; t < kSlotVocab; ++t) {
      logits.push_back(3.0F * std::sin(static_cast<float>((slot + 2) * (t + 1))));
    }
    return slot_candidates(logits, temperature(), bounds_of(logits));
  }
  bool abreast() const override { return abreast_; }
  bool conditioned() const override { return true; }
  void condition(std::size_t, Token previous, std::span<const std::int32_t> columns,
                 std::span<float> logits) const override {
    for (std::size_t i = 0; i < columns.size(); ++i) logits[i] += added(previous, columns[i]);
  }

  bool abreast_;
  mutable std::atomic<int> asked_ = 0;
};

// Tokens and cells of the children on the path of first choices.
std::vector<std::pair<Token, std::uint16_t>> grown(UnlikeSlots& source, std::size_t deep) {
  const TokenSequence sequence = sequence_of({3, 1, 4, 1, 5});
  std::vector<std::pair<Token, std::uint16_t>> out;
  EXPECT_TRUE(source.begin(sequence));
  for (std::size_t depth = 0; depth < deep; ++depth) {
    std::vector<TreeChild> children;
    source.children(children);
    for (const TreeChild& c : children) out.emplace_back(c.token, c.cell.cell);
    source.add(depth, children.at(0).token);
  }
  return out;
}

TEST(SlotSource, ThreadsFindTheSlotsOfOneThread) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  UnlikeSlots one(true);
  const auto want = grown(one, 5);
  EXPECT_EQ(one.asked(), 5);
  UnlikeSlots few(true);
  grown(few, 2);
  EXPECT_EQ(few.asked(), 2);  // as they are asked for
  for (const int threads : {2, 3, 8}) {
    at::set_num_threads(threads);
    UnlikeSlots source(true);
    for (int round = 0; round < 20; ++round) EXPECT_EQ(grown(source, 5), want) << threads;
    EXPECT_EQ(source.asked(), 20 * 5);
    UnlikeSlots ready(false);
    EXPECT_EQ(grown(ready, 2), std::vector(want.begin(), want.begin() + 16));
    EXPECT_EQ(ready.asked(), 2);
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace forerun
