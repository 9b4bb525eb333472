// The law that a chain hands to its rule is the law that its tokens are drawn from, and both are
// the network's; a tree's candidates are ranked by the law after a node's own token.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "forerun/core/ngram_key.h"
#include "forerun/core/online_ngram.h"
#include "forerun/core/tests_of_fit.h"
#include "forerun/methods/dflash/dflash_drafter.h"
#include "forerun/methods/dflash/dflash_source.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/random_dflash.h"

namespace forerun {
namespace {

constexpr double kLeastP = 1e-6;  // fails by chance once in a million runs of a form
constexpr std::uint64_t kLawSeed = 5;
constexpr double kTemperature = 1.5;
const std::vector<Token> kPrompt = {4, 17, 30, 9, 41, 2};

struct Kind {
  const char* name;
  std::int64_t selector = 0, markov = 0;
  bool gated = false, reduced = false, next = true;
  Precision precision = Precision::kF32;
};

DFlash network(const Kind& kind) {
  DFlashConfig c = small_dflash({{}, {.window = 4}});
  c.draft_vocab = kind.reduced ? 20 : 50;
  c.predicts_next = kind.next;
  c.conv_taps = 2;
  c.conv_group = 8;
  c.selector_rank = kind.selector;
  c.selector_top_k = 5;
  c.markov_rank = kind.markov;
  c.markov_gated = kind.gated;
  DFlash m = noisy_dflash(c, at::kFloat, 61);
  if (kind.selector > 0) m.successors.mul_(3.0);  // the token before decides
  if (kind.reduced) m.draft_to_target = at::arange(3, 43, 2, at::kLong);
  return m;
}

class DFlashLaw : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam().precision == Precision::kInt8 && !cpu_features().int8()) {
      GTEST_SKIP() << "this processor has no AVX2";
    }
  }

  TokenSequence sequence(Rule rule, double temperature) const {
    return TokenSequence(kLawSeed, 1, kPrompt, 100, {},
                         {.sampling = {.temperature = temperature}, .rule = rule});
  }
  HiddenStates states() const {
    return {.first = 0, .count = rows.size(0), .rows = rows.const_data_ptr<float>()};
  }
  // Log-weights of a slot after a token, over the target's vocabulary, straight from the passes.
  std::vector<double> law_after(std::int64_t slot, Token previous) const {
    const auto context = passes->make_context();
    const BlockSpan span{.context = context.get(),
                         .features = rows.const_data_ptr<float>(),
                         .fresh = rows.size(0),
                         .anchor = kPrompt.back(),
                         .drafts = 3};
    const auto blocks = passes->forward({&span, 1});
    at::Tensor row = blocks.logits[slot].clone();
    passes->condition(previous, blocks.state(slot),
                      {row.data_ptr<float>(), static_cast<std::size_t>(row.numel())});
    const at::Tensor law = at::softmax(row.to(at::kDouble) / kTemperature, 0);
    std::vector<double> out(50, 0.0);
    for (std::int64_t i = 0; i < law.numel(); ++i) {
      out[static_cast<std::size_t>(passes->token(i))] = law[i].item<double>();
    }
    return out;
  }

  const DFlash model = network(GetParam());
  const std::shared_ptr<const DFlashPasses> passes =
      DFlashPasses::make(model, GetParam().precision);
  // Of all tokens but the newest.
  const at::Tensor rows =
      random_features(model.config, static_cast<std::int64_t>(kPrompt.size()) - 1, at::kFloat, 62);
};

TEST_P(DFlashLaw, AChainIsDrawnFromTheLawsThatItHandsOver) {
  constexpr std::size_t kRounds = 6000;
  DFlashDrafter drafter(passes);
  TokenSequence text = sequence(Rule::kMaximal, kTemperature);
  drafter.read(text, states());
  TokenSequence* const one = &text;
  const std::size_t length = 2;
  std::map<Token, std::vector<std::size_t>> second;
  std::vector<std::size_t> first(50, 0);
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::vector<TokenDraft> drafts = drafter.propose({&one, 1}, {&length, 1});
    ASSERT_EQ(drafts[0].tokens.size(), 2U);
    ASSERT_EQ(drafts[0].laws.size(), 2U);
    const Token a = drafts[0].tokens[0], b = drafts[0].tokens[1];
    ++first[static_cast<std::size_t>(a)];
    auto& counts = second[a];
    counts.resize(50);
    ++counts[static_cast<std::size_t>(b)];
    if (counts[static_cast<std::size_t>(b)] > 1) {
      text.next_round();
      continue;
    }
    for (const std::size_t k : {0U, 1U}) {  // once for each pair: what the rule is given
      const std::vector<double> want =
          law_after(static_cast<std::int64_t>(k), k == 0 ? kPrompt.back() : a);
      double sum = 0.0;
      std::size_t possible = 0;
      for (Token t = 0; t < 50; ++t) {
        const double p = drafts[0].laws[k].prob(t);
        EXPECT_NEAR(p, want[static_cast<std::size_t>(t)], 1e-5);
        sum += p;
        possible += p > 0.0;
      }
      EXPECT_NEAR(sum, 1.0, 1e-9);
      EXPECT_EQ(possible, GetParam().selector > 0 ? 5U : passes->config().draft_vocab);
    }
    text.next_round();
  }
  EXPECT_GT(chi_square_p(law_after(0, kPrompt.back()), first), kLeastP);
  double other = 1.0;
  for (const auto& [a, counts] : second) {
    EXPECT_GT(chi_square_p(law_after(1, a), counts), kLeastP) << "after " << a;
    // The control: the law after another token is found to be another.
    other = std::min(other, chi_square_p(law_after(1, kPrompt.back()), counts));
  }
  EXPECT_GT(second.size(), 2U);
  EXPECT_LT(other, kLeastP);
}

// A quarter of what the text has had after two tokens, for tokens that a slot may draft.
std::vector<double> with_trigrams(std::vector<double> law, Token before, Token last) {
  OnlineNgram text(ngram_key::kMostTokens);
  text.read(kPrompt);
  for (std::size_t t = 0; t < law.size(); ++t) {
    const double seen = std::exp(text.log_prob(before, last, static_cast<Token>(t)));
    law[t] = law[t] > 0.0 ? 0.75 * law[t] + 0.25 * seen : 0.0;
  }
  return law;
}

TEST_P(DFlashLaw, ATreeRanksWhatFollowsANodeByItsOwnToken) {
  DFlashSource source(passes);
  TokenSequence text = sequence(Rule::kMatch, kTemperature);
  source.read(text, states());
  const TokenSequence* const one = &text;
  source.query({&one, 1});
  // Tokens of the source's own, and one that some other source drafted.
  for (const Token drafted : {Token{11}, Token{25}, Token{48}}) {
    ASSERT_TRUE(source.begin(text));
    std::vector<TreeChild> children;
    for (std::int64_t slot = 0; slot < 2; ++slot) {
      const Token previous = slot == 0 ? kPrompt.back() : drafted;
      children.clear();
      source.children(children);
      const std::vector<double> law =
          with_trigrams(law_after(slot, previous),
                        slot == 0 ? kPrompt[kPrompt.size() - 2] : kPrompt.back(), previous);
      ASSERT_FALSE(children.empty());
      EXPECT_LE(children.size(), GetParam().selector > 0 ? 5U : 8U);
      double least = 2.0;
      for (const TreeChild& child : children) {  // by falling probability, none left out between
        const double p = law[static_cast<std::size_t>(child.token)];
        EXPECT_GT(p, 0.0);
        EXPECT_LE(p, least + 1e-9) << "slot " << slot << " after " << previous;
        least = p;
      }
      const auto larger =
          std::count_if(law.begin(), law.end(), [&](double p) { return p > least * (1.0 + 1e-6); });
      EXPECT_LT(larger, static_cast<std::ptrdiff_t>(children.size()));
      source.add(0, drafted);
    }
  }
}

// A grammar that allows the same tokens everywhere.
class Allowed final : public TokenGrammar, public GrammarWalk {
 public:
  explicit Allowed(std::span<const Token> tokens) : words_(2) {
    for (const Token t : tokens) words_[static_cast<std::size_t>(t) / 32] |= 1U << (t % 32);
  }
  std::unique_ptr<GrammarWalk> walk() const override { return std::make_unique<Allowed>(*this); }
  AllowedTokens after(std::span<const Token>) override { return AllowedTokens(words_); }

 private:
  std::vector<std::uint32_t> words_;
};

// To end a chain where the grammar allows none of the candidates would be a choice by drafted
// values: a token is drafted all the same, and will be rejected.
TEST_P(DFlashLaw, AChainGoesOnWhereAGrammarAllowsNoCandidate) {
  if (GetParam().selector == 0) GTEST_SKIP();
  const std::vector<double> first = law_after(0, kPrompt.back());
  std::vector<Token> inside, outside;
  for (Token t = 3; t < 43; t += 2) {  // what a reduced vocabulary has too
    (first[static_cast<std::size_t>(t)] > 0.0 ? inside : outside).push_back(t);
  }
  ASSERT_FALSE(inside.empty());
  const auto drafted = [&](std::span<const Token> allowed) {
    DFlashDrafter drafter(passes);
    TokenSequence text(kLawSeed, 1, kPrompt, 100, {},
                       {.sampling = {.temperature = kTemperature},
                        .rule = Rule::kMaximal,
                        .changes = {.grammar = std::make_shared<Allowed>(allowed)}});
    drafter.read(text, states());
    TokenSequence* const one = &text;
    const std::size_t length = 3;
    return drafter.propose({&one, 1}, {&length, 1})[0].tokens;
  };
  const std::vector<Token> forbidden = drafted(outside);
  ASSERT_EQ(forbidden.size(), 3U);
  EXPECT_GT(first[static_cast<std::size_t>(forbidden[0])], 0.0);
  const std::vector<Token> kept = drafted(inside);
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_NE(std::find(inside.begin(), inside.end(), kept[0]), inside.end());
}

// Scores that are not numbers end a draft; they never make a token possible.
TEST_P(DFlashLaw, ADraftEndsWhereScoresAreNotNumbers) {
  if (GetParam().selector == 0) GTEST_SKIP();
  DFlash broken = model;
  broken.head = at::full_like(model.head, std::numeric_limits<float>::quiet_NaN());
  const std::shared_ptr<const DFlashPasses> net = DFlashPasses::make(broken, Precision::kF32);
  DFlashDrafter drafter(net);
  TokenSequence text = sequence(Rule::kMaximal, kTemperature);
  drafter.read(text, states());
  TokenSequence* const one = &text;
  const std::size_t length = 3;
  const std::vector<TokenDraft> drafts = drafter.propose({&one, 1}, {&length, 1});
  EXPECT_TRUE(drafts[0].laws.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DFlashLaw,
    ::testing::Values(Kind{"Markov", 0, 6}, Kind{"Gated", 0, 6, true, true}, Kind{"Selector", 6},
                      Kind{"ReducedSelector", 6, 0, false, true},
                      Kind{"OwnPosition", 6, 0, false, false, false},
                      Kind{"Int8Selector", 16, 0, false, true, true, Precision::kInt8}),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace forerun
