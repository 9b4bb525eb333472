#include "forerun/core/token_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/core/sequence.h"
#include "forerun/core/shared_noise.h"
#include "forerun/core/speculate.h"
#include "tests/support/samples.h"

namespace forerun {
namespace {

using Slots = std::vector<std::vector<double>>;

// Candidates that depend on the depth alone.
TokenTree grow(const Slots& slots, const TokenTree::Limits& limits) {
  return TokenTree::grow(limits, [&](const TokenTree& tree, std::size_t node) {
    std::vector<TreeChild> out;
    const std::size_t depth = tree.node(node).depth;
    if (depth >= slots.size()) return out;
    for (std::size_t t = 0; t < slots[depth].size(); ++t) {
      out.push_back({.token = static_cast<Token>(t), .probability = slots[depth][t]});
    }
    return out;
  });
}

// The n largest path products, over all paths.
std::vector<double> brute_force(const Slots& slots) {
  std::vector<double> all;
  const std::function<void(std::size_t, double)> walk = [&](std::size_t depth, double reach) {
    if (depth == slots.size()) return;
    for (const double p : slots[depth]) {
      all.push_back(reach * p);
      walk(depth + 1, reach * p);
    }
  };
  walk(0, 1.0);
  std::sort(all.rbegin(), all.rend());
  return all;
}

TEST(TokenTree, ItsFirstNodesAreTheBestTreeOfEverySize) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    Slots slots(4, std::vector<double>(5));
    for (auto& slot : slots) {
      double sum = 0.0;
      for (double& p : slot) sum += p = std::exp(2.0 * std::generate_canonical<double, 32>(random));
      for (double& p : slot) p /= 1.1 * sum;
    }
    const std::vector<double> best = brute_force(slots);
    const auto reach = grow(slots, {.nodes = 40, .depth = 4}).reaches();
    ASSERT_EQ(reach.size(), 40U);
    for (std::size_t n = 0; n < reach.size(); ++n) EXPECT_NEAR(reach[n], best[n], 1e-12) << n;
  }
}

TEST(TokenTree, KeepsItsLimits) {
  const Slots slots(6, {0.6, 0.3, 0.05});
  EXPECT_EQ(grow(slots, {.nodes = 0, .depth = 4}).size(), 0U);
  EXPECT_EQ(grow(slots, {.nodes = 5, .depth = 0}).size(), 0U);
  EXPECT_EQ(grow(slots, {.nodes = 1, .depth = 9}).size(), 1U);
  EXPECT_EQ(grow(slots, {.nodes = 31, .depth = 9}).size(), 31U);
  EXPECT_EQ(grow(slots, {.nodes = 99, .depth = 1}).size(), 3U);
  const TokenTree likely = grow(slots, {.nodes = 99, .depth = 9, .least = 0.1});
  for (const double reach : likely.reaches()) EXPECT_GE(reach, 0.1);
}

TEST(TokenTree, OfEqualCandidatesTheLikelierCounts) {
  const TokenTree tree = TokenTree::grow({.nodes = 9, .depth = 1}, [](const auto&, std::size_t) {
    return std::vector<TreeChild>{{.token = 4, .probability = 0.2, .source = 0},
                                  {.token = 4, .probability = 0.5, .source = 1},
                                  {.token = 2, .probability = 0.3, .source = 0}};
  });
  ASSERT_EQ(tree.size(), 2U);
  EXPECT_EQ(tree.node(1).token, 4);
  EXPECT_DOUBLE_EQ(tree.node(1).reach, 0.5);
  EXPECT_EQ(tree.node(0).children[0].source, 1);
}

TEST(TokenTree, OfEqualCandidatesThatAreAsLikelyTheFirstCounts) {
  const TokenTree tree = TokenTree::grow({.nodes = 9, .depth = 1}, [](const auto&, std::size_t) {
    std::vector<TreeChild> children(40, {.token = 4, .probability = 0.5, .source = 1});
    children[0].source = 3;
    return children;
  });
  ASSERT_EQ(tree.node(0).children.size(), 1U);
  EXPECT_EQ(tree.node(0).children[0].source, 3);
}

TEST(TokenTree, ADraftHasItsLikeliestPathFirstAndEveryParentBefore) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    Slots slots(5, std::vector<double>(3));
    for (auto& slot : slots) {
      for (double& p : slot) p = std::generate_canonical<double, 32>(random) / 2.0;
    }
    const TokenTree tree = grow(slots, {.nodes = 20, .depth = 5});
    for (std::size_t n = 0; n <= tree.size(); ++n) {
      const TokenDraft draft = tree.draft(n);
      ASSERT_EQ(draft.size(), n);
      std::size_t path = 0;
      while (path < n && draft.parent(path) == static_cast<std::int32_t>(path) - 1) ++path;
      EXPECT_EQ(draft.tree(), path < n);
      for (std::size_t i = 0; i < n; ++i) EXPECT_LT(draft.parent(i), static_cast<std::int32_t>(i));
    }
  }
}

TEST(TokenTree, JudgesTheCandidatesOnTheWayOfTheOutputs) {
  const TokenTree tree = grow({{0.6, 0.4}, {0.7, 0.2}}, {.nodes = 3, .depth = 2});
  std::vector<std::pair<double, bool>> seen;
  tree.judge(std::vector<Token>{0, 1, 1},
             [&](const TreeChild& child, bool hit) { seen.emplace_back(child.probability, hit); });
  const std::vector<std::pair<double, bool>> expected{
      {0.6, true}, {0.4, false}, {0.7, false}, {0.2, true}};
  EXPECT_EQ(seen, expected);
}

// The same tokens may follow several nodes.
TEST(TokenTree, FindsTheChildrenOfEachNode) {
  const TokenTree tree = grow({{0.6, 0.5}, {0.7, 0.6}, {0.8}}, {.nodes = 8, .depth = 3});
  ASSERT_EQ(tree.size(), 8U);
  for (std::size_t i = 1; i <= tree.size(); ++i) {
    EXPECT_EQ(tree.child_of(tree.node(i).parent, tree.node(i).token), i);
    EXPECT_EQ(tree.child_of(i, 7), TokenTree::kRoot);
  }
  EXPECT_EQ(tree.child_of(tree.size(), 0), TokenTree::kRoot);
}

TEST(HitRates, GoFromThePriorOverTheGroupToTheCell) {
  HitRates rates(3, std::array{0.5});
  EXPECT_DOUBLE_EQ(rates.probability({0, 0}), 0.5);
  for (int i = 0; i < 400; ++i) rates.observe({0, 0}, i % 10 == 0);
  EXPECT_NEAR(rates.probability({0, 0}), 0.1, 0.02);
  EXPECT_NEAR(rates.probability({1, 0}), 0.115, 0.02);  // its group's
  for (int i = 0; i < 2000; ++i) rates.observe({0, 0}, i % 10 != 0);
  EXPECT_NEAR(rates.probability({0, 0}), 0.9, 0.05);  // follows a change
}

// The law of the outputs: a small target, drawn by the walk over random trees.
constexpr std::size_t kVocab = 4, kTextLength = 3;

std::vector<float> logits_after(std::span<const Token> text) {
  std::vector<float> out(kVocab);
  std::uint32_t state = 17;
  for (const Token t : text) state = state * 31 + static_cast<std::uint32_t>(t) + 7;
  for (std::size_t i = 0; i < kVocab; ++i) {
    state = state * 1664525U + 1013904223U;
    out[i] = static_cast<float>(state >> 24) / 100.0F;
  }
  return out;
}

struct Rows {
  std::vector<std::vector<float>> weights;
  std::vector<TokenLaw> laws;
  const TokenLaw& at(std::size_t, std::size_t row) const { return laws[row]; }
};

Rows verified(const TokenSequence& sequence, const TokenDraft& draft) {
  Rows out;
  std::vector<std::vector<Token>> texts{{sequence.tokens().begin(), sequence.tokens().end()}};
  for (std::size_t i = 0; i < draft.size(); ++i) {
    texts.push_back(texts[static_cast<std::size_t>(draft.parent(i) + 1)]);
    texts.back().push_back(draft.tokens[i]);
  }
  for (const auto& text : texts) out.weights.push_back(logits_after(text));
  for (const auto& row : out.weights) out.laws.emplace_back(Categorical(row));
  return out;
}

// What drafts: nothing, random trees, or trees that read the noise.
enum class Drafts { kNone, kRandom, kNoiseRanked };

TokenDraft drafted(const TokenSequence& sequence, Drafts how, std::mt19937& random) {
  if (how == Drafts::kNone) return {};
  const TokenTree tree = TokenTree::grow(
      {.nodes = random() % 9, .depth = sequence.remaining() - 1},
      [&](const TokenTree& t, std::size_t node) {
        std::vector<TreeChild> out;
        // A poor guess of the target's law: flat.
        const std::vector<float> flat(kVocab, 0.0F);
        const RngKey key = sequence.key_at(sequence.tokens().size() + t.node(node).depth);
        for (std::size_t i = 0; i < kVocab; ++i) {
          const auto token = static_cast<Token>(i);
          const double p = how == Drafts::kNoiseRanked
                               ? 1.0 / (1.0 + std::exp(-shared_noise(token, key)))
                               : static_cast<double>(random() % 100) / 150.0;
          out.push_back({.token = token, .probability = p});
        }
        return out;
      });
  return tree.draft(tree.size());
}

std::vector<Token> text(std::uint32_t request, Rule rule, Drafts how, std::mt19937& random,
                        std::size_t& accepted) {
  TokenSequence sequence(11, request, {1}, kTextLength);
  while (!sequence.done()) {
    const TokenDraft draft = drafted(sequence, how, random);
    accepted += resolve(sequence, 0, verified(sequence, draft), draft, TokenRule(rule)).accepted;
  }
  return {sequence.outputs().begin(), sequence.outputs().end()};
}

TEST(ResolveTree, TextsAreThoseOfPlainDecodingWhateverTheTree) {
  std::mt19937 random(1);
  for (const Rule rule : {Rule::kSharedNoise, Rule::kMatch, Rule::kMaximal, Rule::kBlock}) {
    std::size_t accepted = 0, none = 0;
    constexpr std::uint32_t kTexts = support::samples(2000);
    for (std::uint32_t request = 0; request < kTexts; ++request) {
      const auto plain = text(request, rule, Drafts::kNone, random, none);
      EXPECT_EQ(text(request, rule, Drafts::kRandom, random, accepted), plain);
      if (rule != Rule::kSharedNoise) continue;
      EXPECT_EQ(text(request, rule, Drafts::kNoiseRanked, random, accepted), plain);
    }
    EXPECT_GT(accepted, kTexts / 4);
  }
}

// Chi-square of the joint law of a text against enumeration.
double chi_square(const std::map<std::vector<Token>, int>& counts, int trials) {
  double sum = 0.0;
  const std::function<void(std::vector<Token>, double)> walk = [&](std::vector<Token> text,
                                                                   double p) {
    if (text.size() == kTextLength + 1) {
      const auto at = counts.find({text.begin() + 1, text.end()});
      const double expected = p * trials, seen = at == counts.end() ? 0.0 : at->second;
      sum += (seen - expected) * (seen - expected) / expected;
      return;
    }
    const std::vector<float> weights = logits_after(text);
    const Categorical law(weights);
    for (Token t = 0; t < static_cast<Token>(kVocab); ++t) {
      text.push_back(t);
      walk(text, p * law.prob(t));
      text.pop_back();
    }
  };
  walk({1}, 1.0);
  return sum;
}

// 63 degrees of freedom: above 130 by chance below 1e-6.
TEST(ResolveTree, NoiseRankedTreesKeepTheLaw) {
  constexpr int kTrials = support::samples(60000);
  std::mt19937 random(2);
  std::map<std::vector<Token>, int> counts, wrong;
  std::size_t accepted = 0, blind = 0;
  for (std::uint32_t i = 0; i < kTrials; ++i) {
    ++counts[text(i, Rule::kSharedNoise, Drafts::kNoiseRanked, random, accepted)];
    text(i, Rule::kSharedNoise, Drafts::kRandom, random, blind);
    // Control: a rule that keeps any draft that the drafter ranked first.
    TokenSequence sequence(11, i, {1}, kTextLength);
    while (!sequence.done()) {
      const TokenDraft draft = drafted(sequence, Drafts::kNoiseRanked, random);
      const Rows rows = verified(sequence, draft);
      sequence.push(draft.size() > 0
                        ? draft.tokens[0]
                        : TokenRule(Rule::kSharedNoise).draw(rows.at(0, 0), sequence.key()));
    }
    ++wrong[{sequence.outputs().begin(), sequence.outputs().end()}];
  }
  EXPECT_LT(chi_square(counts, kTrials), 130.0);
  EXPECT_GT(chi_square(wrong, kTrials), 1000.0);
  EXPECT_GT(accepted, blind + blind / 20);
}

TEST(ResolveTree, CountsAlongThePath) {
  // The outputs are those of greedy decoding: 2, 0, then 1.
  struct Decided {
    std::vector<TokenLaw> laws;
    const TokenLaw& at(std::size_t, std::size_t row) const { return laws[row]; }
  };
  TokenDraft draft{.tokens = {3, 2, 1, 0, 1}, .parents = {-1, -1, 0, 1, 3}};
  const Decided rows{
      {PointMass{2}, PointMass{9}, PointMass{0}, PointMass{9}, PointMass{1}, PointMass{5}}};
  TokenSequence sequence(1, 0, {7}, 10);
  const Outcome out = resolve(sequence, 0, rows, draft, TokenRule(Rule::kMatch));
  EXPECT_EQ(out.emitted, 4U);
  EXPECT_EQ(out.examined, 3U);
  EXPECT_EQ(out.accepted, 3U);
  EXPECT_EQ(out.path, (std::vector<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(std::vector<Token>(sequence.outputs().begin(), sequence.outputs().end()),
            (std::vector<Token>{2, 0, 1, 5}));
  EXPECT_EQ(out.decided_by(0), 0U);
  EXPECT_EQ(out.decided_by(3), 5U);

  // All children rejected; a stop inside a branch; one output left.
  TokenSequence other(1, 0, {7}, 10);
  draft.tokens[1] = 6;
  EXPECT_EQ(resolve(other, 0, rows, draft, TokenRule(Rule::kMatch)).emitted, 1U);
  draft.tokens[1] = 2;
  TokenSequence stopped(1, 0, {7}, 10, [](Token t) { return t == 0; });
  EXPECT_EQ(resolve(stopped, 0, rows, draft, TokenRule(Rule::kMatch)).accepted, 2U);
  EXPECT_TRUE(stopped.done());
  TokenSequence last(1, 0, {7}, 1);
  EXPECT_EQ(resolve(last, 0, rows, draft, TokenRule(Rule::kMatch)).emitted, 1U);
}

}  // namespace
}  // namespace forerun
