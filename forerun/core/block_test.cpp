#include "forerun/core/block.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "forerun/core/rng_key.h"
#include "forerun/core/tests_of_fit.h"
#include "forerun/core/token_rule.h"
#include "tests/support/broken_rules.h"
#include "tests/support/samples.h"
#include "tests/support/toy_chain.h"

namespace forerun {
namespace {

using support::always;
using support::continuation_counts;
using support::exact_probabilities;
using support::five_sigma;
using support::law_of;
using support::MarkovTable;
using support::OwnedLaw;
using support::ToyDrafter;
using support::ToyTarget;

const std::vector<Token> kPrompt = {0, 0};
constexpr std::uint32_t kRounds = support::samples(200000);

// Conditionals depend on the last two of four tokens.
const MarkovTable& target_table() {
  static const MarkovTable table(4, 2, 11, 1.0F);
  return table;
}
const MarkovTable& draft_table() {
  static const MarkovTable table = MarkovTable::near(target_table(), 12, 1.0F);
  return table;
}

// The law of the kept length and of the next token, draft by draft, straight from the paper's
// formulas.
struct Enumerated {
  std::vector<double> kept;      // P(acc = 0), ..., P(acc = g)
  std::vector<double> outcomes;  // of draft, kept length, next token
  double mean() const {
    double sum = 0.0;
    for (std::size_t i = 0; i < kept.size(); ++i) sum += static_cast<double>(i) * kept[i];
    return sum;
  }
};

std::vector<double> residual_of(const std::vector<double>& p, const std::vector<double>& q,
                                double weight) {
  std::vector<double> r;
  for (std::size_t v = 0; v < p.size(); ++v) r.push_back(std::max(0.0, weight * p[v] - q[v]));
  return r;
}

double sum_of(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

// One draft's share: `law(step, table)` after its first `step` tokens.
template <class Laws>
void enumerate_one(const std::vector<Token>& x, double chance, Laws&& p, Laws&& q,
                   Enumerated& out) {
  const std::size_t g = x.size();
  std::vector<double> weight = {1.0}, keeps;
  for (std::size_t i = 0; i < g; ++i) {
    const auto t = static_cast<std::size_t>(x[i]);
    weight.push_back(std::min(1.0, weight[i] * p(i)[t] / q(i)[t]));
    const double z = sum_of(residual_of(p(i), q(i), weight[i]));
    const double all = z + 1.0 - weight[i];
    keeps.push_back(all > 0.0 ? z / all : 1.0);
  }
  keeps.push_back(weight[g]);
  double left = chance;
  std::vector<double> next_of;
  for (std::size_t i = g + 1; i-- > 0;) {
    const double here = i == 0 ? left : left * keeps[i];
    left -= here;
    out.kept[i] += here;
    std::vector<double> next = i == g ? p(g) : residual_of(p(i), q(i), weight[i]);
    const double mass = sum_of(next);
    for (double& v : next) v *= mass > 0.0 ? here / mass : 0.0;
    next_of.insert(next_of.begin(), next.begin(), next.end());
  }
  out.outcomes.insert(out.outcomes.end(), next_of.begin(), next_of.end());
}

Enumerated enumerate(const MarkovTable& target, const MarkovTable& draft, std::size_t g) {
  Enumerated out{.kept = std::vector<double>(g + 1, 0.0), .outcomes = {}};
  const auto chances = draft.continuations(kPrompt, g);
  for (std::size_t cell = 0; cell < chances.size(); ++cell) {
    std::vector<Token> x(g);
    for (std::size_t i = g, rest = cell; i-- > 0; rest /= target.vocab()) {
      x[i] = static_cast<Token>(rest % target.vocab());
    }
    const auto after = [&](const MarkovTable& table, std::size_t step) {
      std::vector<Token> history = kPrompt;
      history.insert(history.end(), x.begin(), x.begin() + static_cast<std::ptrdiff_t>(step));
      return exact_probabilities(table.after(history));
    };
    using Law = std::function<std::vector<double>(std::size_t)>;
    enumerate_one(x, chances[cell], Law([&](std::size_t i) { return after(target, i); }),
                  Law([&](std::size_t i) { return after(draft, i); }), out);
  }
  return out;
}

// One round of the loop for each of `kRounds` requests.
struct Round1 {
  std::vector<std::size_t> outcomes;  // cells as in Enumerated
  double accepted = 0.0, squares = 0.0;
  double mean() const { return accepted / kRounds; }
  double error() const { return std::sqrt((squares / kRounds - mean() * mean()) / kRounds); }
};

template <class AnyRule>
Round1 one_round(const MarkovTable& target, const MarkovTable& draft, std::size_t g,
                 const AnyRule& rule) {
  const std::size_t v = target.vocab();
  const std::size_t drafts = draft.continuations(kPrompt, g).size();
  Round1 out{.outcomes = std::vector<std::size_t>(drafts * (g + 1) * v, 0)};
  ToyTarget toy(target);
  const ToyDrafter drafter(draft, Origin::kSampled, always(g));
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    TokenSequence sequence(77, i, kPrompt, 64);
    std::array<TokenSequence*, 1> one = {&sequence};
    const auto proposed = drafter.propose(one);
    const auto verified = toy.verify(one, proposed);
    const Outcome o = resolve(sequence, 0, verified, proposed[0], rule);
    const std::size_t cell = support::cell_of(proposed[0].tokens, v);
    const auto next = static_cast<std::size_t>(sequence.outputs().back());
    ++out.outcomes[(cell * (g + 1) + o.accepted) * v + next];
    out.accepted += o.accepted;
    out.squares += static_cast<double>(o.accepted) * o.accepted;
  }
  return out;
}

// Sum over lengths of f_i(x) = min(f_{i-1} p, q(x)), the most that any rule on one path keeps.
double most_kept(const MarkovTable& target, const MarkovTable& draft, std::size_t g) {
  double sum = 0.0;
  std::vector<double> f = {1.0};
  for (std::size_t i = 1; i <= g; ++i) {
    const auto p = target.continuations(kPrompt, i), before = target.continuations(kPrompt, i - 1),
               q = draft.continuations(kPrompt, i);
    std::vector<double> next(p.size());
    for (std::size_t c = 0; c < p.size(); ++c) {
      const std::size_t parent = c / target.vocab();
      next[c] = std::min(f[parent] * p[c] / before[parent], q[c]);
    }
    sum += sum_of(f = std::move(next));
  }
  return sum;
}

// Chi-square at 1e-6 of (draft, kept length, next token) against the enumeration, for three
// lengths.
TEST(Block, ARoundHasTheEnumeratedLaw) {
  for (const std::size_t g : {1U, 2U, 3U}) {
    const Enumerated exact = enumerate(target_table(), draft_table(), g);
    EXPECT_NEAR(sum_of(exact.outcomes), 1.0, 1e-6);
    const Round1 seen = one_round(target_table(), draft_table(), g, TokenRule(Rule::kBlock));
    EXPECT_GT(chi_square_p(exact.outcomes, seen.outcomes), 1e-6) << g;
    EXPECT_NEAR(exact.mean(), most_kept(target_table(), draft_table(), g), 1e-6);
    EXPECT_NEAR(seen.mean(), exact.mean(), 5.0 * seen.error());
    if (g == 1) continue;
    const Round1 token = one_round(target_table(), draft_table(), g, TokenRule(Rule::kMaximal));
    EXPECT_LT(chi_square_p(exact.outcomes, token.outcomes), 1e-9) << g;
    EXPECT_LT(token.mean(), seen.mean() - 5.0 * seen.error());
  }
}

// The toy of the paper: p = (1/3, 2/3), q = (2/3, 1/3), two drafts.
TEST(Block, KeepsElevenNinthsWhereTheTokenRuleKeepsTenNinths) {
  const MarkovTable p(std::vector{1.0 / 3, 2.0 / 3}), q(std::vector{2.0 / 3, 1.0 / 3});
  EXPECT_NEAR(enumerate(p, q, 2).mean(), 11.0 / 9, 1e-6);
  EXPECT_NEAR(most_kept(p, q, 2), 11.0 / 9, 1e-6);
  const Round1 block = one_round(p, q, 2, TokenRule(Rule::kBlock));
  EXPECT_NEAR(block.mean(), 11.0 / 9, 5.0 * block.error());
  const Round1 token = one_round(p, q, 2, TokenRule(Rule::kMaximal));
  EXPECT_NEAR(token.mean(), 10.0 / 9, 5.0 * token.error());
}

// With one draft, and with laws that are point masses, texts are those of the token rule: the same
// random numbers decide the same.
TEST(Block, OneDraftIsTheTokenRule) {
  ToyDrafter one(draft_table(), Origin::kSampled, always(1));
  EXPECT_EQ(continuation_counts(target_table(), one, TokenRule(Rule::kBlock), 5000, 4),
            continuation_counts(target_table(), one, TokenRule(Rule::kMaximal), 5000, 4));
}

TEST(Block, DraftsWithoutLawsAndGreedyTargetsAreMatched) {
  for (const Origin origin : {Origin::kChosen, Origin::kSearched}) {
    ToyDrafter drafter(draft_table(), origin, always(3));
    EXPECT_EQ(continuation_counts(target_table(), drafter, TokenRule(Rule::kBlock), 5000, 4),
              continuation_counts(target_table(), drafter, TokenRule(Rule::kMatch), 5000, 4));
  }
}

TEST(Block, OneHotLawsKeepAsManyAsTheTokenRule) {
  const MarkovTable certain(std::vector{0.0, 1.0, 0.0, 0.0});
  const Enumerated exact = enumerate(target_table(), certain, 3);
  const Round1 block = one_round(target_table(), certain, 3, TokenRule(Rule::kBlock));
  const Round1 token = one_round(target_table(), certain, 3, TokenRule(Rule::kMaximal));
  EXPECT_GT(chi_square_p(exact.outcomes, block.outcomes), 1e-6);
  EXPECT_GT(chi_square_p(exact.outcomes, token.outcomes), 1e-6);
}

// A target that forbids the first draft: nothing after it is kept, no later row is asked for.
TEST(Block, AForbiddenDraftEndsTheBlockAndNoLaterRowIsRead) {
  const OwnedLaw target = law_of({0.0, 0.5, 0.5}), draft = law_of({1.0, 0.0, 0.0});
  const TokenDraft x{
      .tokens = {0, 0, 0}, .laws = {draft, draft, draft}, .origin = Origin::kSampled};
  const TokenLaw law = target.law();
  for (std::uint32_t i = 0; i < 100; ++i) {
    std::size_t furthest = 0;
    const auto conditional = [&](std::size_t step) -> const TokenLaw& {
      furthest = std::max(furthest, step);
      return law;
    };
    const auto key = [&](std::size_t step) {
      return RngKey{.seed = 5, .request = i, .position = static_cast<std::uint32_t>(step)};
    };
    const TokenRule rule(Rule::kBlock);
    const auto decided = rule.decide(x, conditional, key);
    ASSERT_TRUE(decided);
    EXPECT_EQ(decided->accepted, 0U);
    EXPECT_EQ(furthest, 0U);
    const auto out = rule.couple(law, x, 0, key(0), decided);
    EXPECT_FALSE(out.accepted);
    EXPECT_NE(out.value, 0);
  }
}

TEST(Block, ABrokenRatioIsNeverAccepted) {
  const auto weights = block_log_weights(3, [](std::size_t i) { return i == 1 ? NAN : 0.5; });
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_EQ(weights[0], 0.0);
  EXPECT_EQ(std::exp(weights[1]), 0.0);
}

// Rules with one error each. The decision is the exact one except where an error is in it.
struct BrokenRule {
  enum Kind { kTokenResidual, kStopAtFirstFailure, kNotNormalised } kind;

  Token draw(const TokenLaw& target, const RngKey& key) const { return exact.draw(target, key); }
  template <class Conditional, class Key>
  Block decide(const TokenDraft& draft, const Conditional& conditional, const Key& key) const {
    if (kind != kStopAtFirstFailure) {
      return exact.decide(draft, conditional, key).value_or(Block{});
    }
    const auto law = [&](std::size_t i) { return std::get<Categorical>(conditional(i)); };
    const auto w = block_log_weights(draft.size(), [&](std::size_t i) {
      return log_ratio(law(i), draft.laws[i], draft.tokens[i]);
    });
    Block out;
    for (std::size_t i = 1; i <= w.size(); ++i) {
      const double p = std::exp(w[i - 1]);
      const double z = i < w.size() ? residual_mass(law(i), draft.laws[i], p) : p;
      const double keeps = i < w.size() && z + 1.0 > p ? z / (z + 1.0 - p) : p;
      if (!(key(i - 1).uniform(Purpose::kAccept) < keeps)) break;
      out = {i, p};
    }
    return out;
  }
  Coupled<Token> couple(const TokenLaw& target, const TokenDraft& draft, std::size_t step,
                        const RngKey& key, const Block& decided) const {
    Block used = decided;
    if (kind == kTokenResidual) used.weight = 1.0;
    if (kind == kNotNormalised && step >= decided.accepted) {
      const auto& p = std::get<Categorical>(target);
      const double mass = residual_mass(p, draft.laws[step], decided.weight);
      const double u = std::min(key.uniform(Purpose::kResidual) / mass, 1.0 - 0x1p-53);
      return {sample_residual(p, draft.laws[step], u, decided.weight), false};
    }
    return exact.couple(target, draft, step, key, used);
  }
  TokenRule exact{Rule::kBlock};
};

// Joint laws of four tokens: 256 texts.
TEST(Block, ChiSquareCatchesEveryBrokenForm) {
  const auto law = target_table().continuations(kPrompt, 4);
  ToyDrafter drafter(draft_table(), Origin::kSampled, always(3));
  const auto p_of = [&](const auto& rule) {
    return chi_square_p(law, continuation_counts(target_table(), drafter, rule, kRounds, 4));
  };
  EXPECT_GT(p_of(TokenRule(Rule::kBlock)), 1e-6);
  for (const auto kind :
       {BrokenRule::kTokenResidual, BrokenRule::kStopAtFirstFailure, BrokenRule::kNotNormalised}) {
    const double p = p_of(BrokenRule{kind});
    if (support::kSanitized) continue;  // too few draws to tell
    EXPECT_LT(p, 1e-9) << kind;
  }
}

}  // namespace
}  // namespace forerun
