// When Medusa heads can draft for a text, and that a tree's candidates are those of its own text,
// of the head of their depth and after a node's own token.
#include "forerun/methods/medusa/medusa_source.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forerun/core/ngram_key.h"
#include "forerun/core/online_ngram.h"
#include "forerun/methods/tree/tree_drafter.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/random_medusa.h"

namespace forerun {
namespace {

constexpr double kMedusaTemperature = 1.5;
constexpr std::int64_t kMedusaHeads = 3, kMedusaPositions = 20;

struct HeadsKind {
  const char* name;
  bool markov = false, reduced = false;
  Precision precision = Precision::kF32;
};

// All tokens are within the bounds of a slot's candidates.
Medusa heads_of(const HeadsKind& kind) {
  MedusaConfig c = small_medusa();
  c.draft_vocab = kind.reduced ? 20 : 50;
  c.markov_rank = kind.markov ? 6 : 0;
  Medusa m = noisy_medusa(c, at::kFloat, 61);
  m.head.mul_(0.5);
  if (kind.markov) m.markov_w2.mul_(0.5);
  if (kind.reduced) m.draft_to_target = at::arange(3, 43, 2, at::kLong);
  return m;
}

TokenSequence medusa_text(std::uint32_t request, std::vector<Token> tokens) {
  return {5,   request, std::move(tokens),
          100, {},      {.sampling = {.temperature = kMedusaTemperature}, .rule = Rule::kMatch}};
}

// The states of `count` positions of a text from `first` on, of those of all.
HiddenStates medusa_states(const at::Tensor& rows, std::int64_t first, std::int64_t count) {
  return {
      .first = first, .count = count, .rows = rows.const_data_ptr<float>() + first * rows.size(1)};
}

// The children are the likeliest tokens of a law, by falling probability.
void expect_likeliest(const std::vector<TreeChild>& children, const std::vector<double>& law) {
  ASSERT_EQ(children.size(), 8U);
  double least = 2.0;
  for (const TreeChild& child : children) {
    const double p = law.at(static_cast<std::size_t>(child.token));
    EXPECT_GT(p, 0.0) << child.token << " cannot be drafted";
    EXPECT_LE(p, least + 1e-9) << child.token;
    least = p;
  }
  const auto larger =
      std::count_if(law.begin(), law.end(), [&](double p) { return p > least * (1.0 + 1e-6); });
  EXPECT_LT(larger, 8);
}

class MedusaSources : public ::testing::TestWithParam<HeadsKind> {
 protected:
  void SetUp() override {
    if (GetParam().precision == Precision::kInt8 && !cpu_features().int8()) {
      GTEST_SKIP() << "this processor has no AVX2";
    }
  }

  // A head's law after a token over the target's vocabulary, straight from the passes.
  // @param place  the rows of this position are read
  std::vector<double> head_law(std::int64_t head, const at::Tensor& rows, std::int64_t place,
                               Token newest, Token previous) const {
    const MedusaInput input{.features = rows.const_data_ptr<float>() + place * rows.size(1),
                            .newest = newest};
    at::Tensor row = passes->forward({&input, 1})[head].clone();
    const auto n = static_cast<std::size_t>(row.numel());
    std::vector<std::int32_t> ids(n);
    std::iota(ids.begin(), ids.end(), 0);
    passes->condition(previous, ids, {row.data_ptr<float>(), n});
    EXPECT_LT((row.max() - row.min()).item<double>(), 11.0) << "some are no candidates";
    const at::Tensor law = at::softmax(row.to(at::kDouble) / kMedusaTemperature, 0);
    std::vector<double> out(50, 0.0);
    for (std::int64_t i = 0; i < law.numel(); ++i) {
      out[static_cast<std::size_t>(passes->token(i))] = law[i].item<double>();
    }
    return out;
  }

  // The same with a quarter of what the text has had after the node's token and the one before, for
  // tokens that heads may draft.
  std::vector<double> node_law(const TokenSequence& text, const at::Tensor& rows, std::int64_t head,
                               Token before, Token last) const {
    const auto place = static_cast<std::int64_t>(text.tokens().size()) - 2;
    std::vector<double> out = head_law(head, rows, place, text.tokens().back(), last);
    OnlineNgram seen(ngram_key::kMostTokens);
    seen.read(text.tokens());
    for (std::size_t t = 0; t < out.size(); ++t) {
      if (out[t] == 0.0) continue;
      out[t] = 0.75 * out[t] + 0.25 * std::exp(seen.log_prob(before, last, static_cast<Token>(t)));
    }
    return out;
  }
  std::vector<double> root_law(const TokenSequence& text, const at::Tensor& rows) const {
    const std::span<const Token> tokens = text.tokens();
    return node_law(text, rows, 0, tokens[tokens.size() - 2], tokens.back());
  }

  // The tree of a text that was queried begins with its own candidates.
  void expect_own_candidates(MedusaSource& source, const TokenSequence& text,
                             const at::Tensor& rows) const {
    ASSERT_TRUE(source.begin(text));
    std::vector<TreeChild> children;
    source.children(children);
    expect_likeliest(children, root_law(text, rows));
  }
  void expect_query_gives_own_candidates(MedusaSource& source, const TokenSequence& text,
                                         const at::Tensor& rows) const {
    ASSERT_TRUE(source.state(text).ready);
    const TokenSequence* const one = &text;
    source.query({&one, 1});
    expect_own_candidates(source, text, rows);
  }

  at::Tensor random_states(std::uint64_t seed) const {
    return random_features(passes->config(), kMedusaPositions, at::kFloat, seed);
  }

  const std::shared_ptr<const MedusaPasses> passes =
      MedusaPasses::make(heads_of(GetParam()), GetParam().precision);
  const at::Tensor states = random_states(62);
};

TEST_P(MedusaSources, SayWhatTheyReadAndMake) {
  const MedusaSource source(passes);
  EXPECT_EQ(source.made(), 3U);
  EXPECT_EQ(source.state_width(), 72);
  const auto features = source.features();
  EXPECT_EQ(std::vector<std::int64_t>(features.begin(), features.end()),
            (std::vector<std::int64_t>{1, 4, 6}));
}

TEST_P(MedusaSources, AreReadyWithTheStatesBeforeTheNewestToken) {
  MedusaSource source(passes);
  TokenSequence text = medusa_text(1, {4, 17, 30, 9, 41, 2});
  EXPECT_FALSE(source.state(text).ready);
  source.read(text, medusa_states(states, 0, 3));  // a piece of the prompt
  EXPECT_FALSE(source.state(text).ready);
  source.read(text, medusa_states(states, 3, 2));  // the rest, without the newest token
  EXPECT_EQ(source.state(text).unread, 0U);
  expect_query_gives_own_candidates(source, text, states);

  // Passes over the newest token and drafts: of three one is kept, then none, then both of two.
  text.push(8);
  EXPECT_FALSE(source.state(text).ready);
  text.push(11);
  source.observe_states(text, medusa_states(states, 5, 4));
  expect_query_gives_own_candidates(source, text, states);
  text.push(13);
  EXPECT_FALSE(source.state(text).ready);
  source.observe_states(text, medusa_states(states, 7, 4));
  expect_query_gives_own_candidates(source, text, states);
  for (const Token t : {20, 21, 22}) text.push(t);
  source.observe_states(text, medusa_states(states, 8, 3));
  expect_query_gives_own_candidates(source, text, states);

  // A pass that kept no states, and one whose rows end before the text's newest token.
  text.push(5);
  source.observe_states(text, {});
  EXPECT_FALSE(source.state(text).ready);
  text.push(6);
  source.observe_states(text, medusa_states(states, 11, 1));
  EXPECT_FALSE(source.state(text).ready);
  // A pass over the rest makes up for it.
  source.observe_states(text, medusa_states(states, 11, 2));
  expect_query_gives_own_candidates(source, text, states);
}

TEST_P(MedusaSources, KnowNothingOfATextThatIsForgottenOrShared) {
  MedusaSource source(passes);
  const TokenSequence text = medusa_text(1, {4, 17, 30, 9}), other = medusa_text(2, {4, 17, 30, 9});
  source.read(text, medusa_states(states, 0, 3));
  source.read(other, medusa_states(states, 0, 3));
  source.forget(text.id());
  EXPECT_FALSE(source.state(text).ready);
  EXPECT_TRUE(source.state(other).ready);
  source.forget(77);  // never seen
  // What another text shares may be kept by the target; these states come with the next pass.
  const TokenSequence third = medusa_text(3, {4, 17, 30, 9});
  EXPECT_TRUE(source.share(other.id(), third.id(), 3));
  EXPECT_FALSE(source.state(third).ready);
  const at::Tensor fresh = random_states(63);
  source.observe_states(third, medusa_states(fresh, 2, 1));
  expect_query_gives_own_candidates(source, third, fresh);
}

TEST_P(MedusaSources, EachTextHasCandidatesOfItsOwn) {
  MedusaSource source(passes);
  const std::vector<TokenSequence> texts = {medusa_text(3, {4, 17, 30, 9, 41, 2}),
                                            medusa_text(1, {7, 17, 2}),
                                            medusa_text(8, {1, 2, 3, 4, 5, 6, 7, 8, 9})};
  std::vector<at::Tensor> own;
  for (const TokenSequence& text : texts) {
    own.push_back(random_states(70 + own.size()));
    const auto known = static_cast<std::int64_t>(text.tokens().size()) - 1;
    source.read(text, medusa_states(own.back(), 0, known));
  }
  ASSERT_NE(root_law(texts[0], own[0]), root_law(texts[0], own[1]));
  const TokenSequence* const every[] = {&texts[2], &texts[0], &texts[1]};
  source.query(every);
  for (const std::size_t i : {0U, 1U, 2U, 0U}) expect_own_candidates(source, texts[i], own[i]);
  // Of those that were not asked for nothing is left.
  const TokenSequence* const two[] = {&texts[1], &texts[2]};
  source.query(two);
  EXPECT_FALSE(source.begin(texts[0]));
  for (const std::size_t i : {2U, 1U}) expect_own_candidates(source, texts[i], own[i]);
  source.query({});
  for (const TokenSequence& text : texts) EXPECT_FALSE(source.begin(text));
}

TEST_P(MedusaSources, EveryDepthHasAHeadOfItsOwn) {
  MedusaSource source(passes);
  const TokenSequence text = medusa_text(1, {4, 17, 30, 9, 41, 2});
  source.read(text, medusa_states(states, 0, 5));
  const TokenSequence* const one = &text;
  source.query({&one, 1});
  ASSERT_TRUE(source.begin(text));
  Token before = 41, last = 2;
  for (std::int64_t head = 0; head < kMedusaHeads; ++head) {
    SCOPED_TRACE(head);
    std::vector<TreeChild> children;
    source.children(children);
    expect_likeliest(children, node_law(text, states, head, before, last));
    if (head > 0) {
      ASSERT_NE(head_law(head, states, 4, 2, last), head_law(head - 1, states, 4, 2, last));
    }
    before = std::exchange(last, head == 0 ? 48 : children.at(2).token);  // 48: another source's
    source.add(static_cast<std::size_t>(head), last);
  }
  std::vector<TreeChild> deeper;
  source.children(deeper);
  EXPECT_TRUE(deeper.empty());
}

TEST_P(MedusaSources, NodesOfOneDepthFollowTheirOwnTokens) {
  MedusaSource source(passes);
  const TokenSequence text = medusa_text(1, {4, 17, 30, 9, 41, 2});
  source.read(text, medusa_states(states, 0, 5));
  const TokenSequence* const one = &text;
  source.query({&one, 1});
  ASSERT_TRUE(source.begin(text));
  std::vector<TreeChild> children;
  source.children(children);
  for (const Token drafted : {11, 25, 48}) {
    source.add(TokenTree::kRoot, drafted);
    children.clear();
    source.children(children);
    expect_likeliest(children, node_law(text, states, 1, 2, drafted));
  }
  const bool differ = head_law(1, states, 4, 2, 11) != head_law(1, states, 4, 2, 25);
  EXPECT_EQ(differ, GetParam().markov);
}

TEST_P(MedusaSources, TreesAndChainsEndWithTheHeads) {
  for (const auto shape : {TreeDrafter::Shape::kTree, TreeDrafter::Shape::kChain}) {
    TreeDrafter drafter({}, std::make_unique<MedusaSource>(passes),
                        DraftLength({.adaptive = false}), 12, shape);
    EXPECT_EQ(drafter.state_width(), 72);
    TokenSequence text = medusa_text(1, {4, 17, 30, 9, 41, 2});
    TokenSequence* const one[] = {&text};
    EXPECT_EQ(drafter.propose(one, 0).at(0).size(), 0U);  // no states, no drafts
    drafter.read(text, medusa_states(states, 0, 5));
    const std::vector<TokenDraft> drafts = drafter.propose(one, 0);
    const TokenDraft& draft = drafts.at(0);
    std::vector<int> depths;
    for (std::size_t i = 0; i < draft.size(); ++i) {
      const std::int32_t parent = draft.parent(i);
      depths.push_back(parent < 0 ? 1 : depths.at(static_cast<std::size_t>(parent)) + 1);
      EXPECT_LE(depths.back(), kMedusaHeads);
    }
    if (shape == TreeDrafter::Shape::kTree) {
      EXPECT_TRUE(draft.tree());
      EXPECT_EQ(draft.size(), 12U);
    } else {
      EXPECT_FALSE(draft.tree());
      EXPECT_EQ(draft.size(), static_cast<std::size_t>(kMedusaHeads));
    }
    if (GetParam().reduced) {
      for (const Token t : draft.tokens) EXPECT_TRUE(t % 2 == 1 && t >= 3 && t < 43) << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Medusa, MedusaSources,
                         ::testing::Values(HeadsKind{"Plain"}, HeadsKind{"Markov", true},
                                           HeadsKind{"Reduced", false, true},
                                           HeadsKind{"ReducedMarkov", true, true},
                                           HeadsKind{"Int8", true, true, Precision::kInt8}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace forerun
