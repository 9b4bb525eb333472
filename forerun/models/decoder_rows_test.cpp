// Passes over trees and blocks of rows: equal to the chains that they hold, for models of every
// family; in int8 bit for bit.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <tuple>

#include "forerun/models/decoder_lm.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

using Rows = std::vector<std::int32_t>;

struct Tree {
  std::vector<Token> tokens;
  Rows parents, groups = {};

  Rows path_to(std::int32_t row) const {
    Rows path;
    for (; row >= 0; row = parents[static_cast<std::size_t>(row)]) path.push_back(row);
    std::reverse(path.begin(), path.end());
    return path;
  }
  std::vector<Token> text_of(const Rows& path) const {
    std::vector<Token> text;
    for (const std::int32_t row : path) text.push_back(tokens[static_cast<std::size_t>(row)]);
    return text;
  }
  SequenceSpan span(KvCache& cache) const {
    return {.cache = &cache,
            .tokens = tokens,
            .scored = static_cast<std::int64_t>(tokens.size()),
            .parents = parents,
            .groups = groups};
  }
};

class DecoderRows : public ::testing::TestWithParam<std::tuple<std::string, Precision>> {
 protected:
  void SetUp() override {
    const auto& [name, precision] = GetParam();
    if (int8() && !cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    model_ = load_decoder(load_gguf(kTiny + name + "/model.gguf"), precision);
    model_.config.context = 1000;  // several chunks of keys
    for (int i = 0; i < 600; ++i) text_.push_back(static_cast<Token>(i * i * 7 % 157));
  }
  void TearDown() override { at::set_num_threads(1); }
  bool int8() const { return std::get<1>(GetParam()) == Precision::kInt8; }
  bool recurs() const { return !model_.config.recurrent.none(); }
  static std::size_t state_bytes(KvCache& cache) {
    return cache.recurrent() == nullptr ? 0 : cache.recurrent()->bytes();
  }
  // A row follows one of the four before it, or the kept positions.
  Tree tree(std::int32_t rows) {
    Tree t;
    for (std::int32_t i = 0; i < rows; ++i) {
      t.tokens.push_back(static_cast<Token>(random_() % 150));
      t.parents.push_back(std::max(-1, i - 1 - static_cast<std::int32_t>(random_() % 4)));
    }
    return t;
  }
  KvCache prefilled(std::size_t n, const std::shared_ptr<KvPool>& pool = nullptr) const {
    KvCache cache = model_.make_cache(pool);
    pass(model_, cache, std::span(text_).first(n));
    return cache;
  }
  at::Tensor run(const Tree& t, KvCache& cache) const {
    const SequenceSpan span = t.span(cache);
    return forward(model_, {&span, 1}).clone();
  }
  // Logits of `tokens` after the first positions of `cache`, as a chain.
  at::Tensor chain(const KvCache& cache, const std::vector<Token>& tokens) const {
    KvCache own = cache.share(cache.length());
    return pass(model_, own, tokens).clone();
  }
  void expect_same(const at::Tensor& a, const at::Tensor& b, const std::string& where) const {
    if (int8()) {
      ASSERT_TRUE(at::equal(a, b)) << where;
      return;
    }
    const double tolerance = std::get<1>(GetParam()) == Precision::kF32 ? 2e-4 : 0.2;
    ASSERT_LT(distance(a, b), tolerance) << where;
    if (std::get<1>(GetParam()) != Precision::kF32) return;
    ASSERT_TRUE(at::equal(a.argmax(-1), b.argmax(-1))) << where;
  }
  // The logits of every row, from the chains to the tree's leaves.
  at::Tensor chains(const Tree& t, const KvCache& prefix) const {
    const auto n = static_cast<std::int32_t>(t.tokens.size());
    at::Tensor out = at::empty({n, model_.config.vocab}, at::kFloat);
    for (std::int32_t row = 0; row < n; ++row) {
      if (std::count(t.parents.begin(), t.parents.end(), row) > 0) continue;
      const Rows path = t.path_to(row);
      const at::Tensor alone = chain(prefix, t.text_of(path));
      for (std::size_t i = 0; i < path.size(); ++i) {
        out[path[i]].copy_(alone[static_cast<std::int64_t>(i)]);
      }
    }
    return out;
  }

  // Of recurrent layers the states of some earlier positions are there only.
  void expect_a_start_of_the_text(const KvCache& cache, std::size_t at_most) const {
    const auto kept = static_cast<std::size_t>(cache.length());
    ASSERT_LE(kept, at_most);
    const auto from = text_.begin() + static_cast<std::ptrdiff_t>(kept);
    const std::size_t more = at_most - kept + 3;
    const std::vector<Token> rest(from, from + static_cast<std::ptrdiff_t>(more));
    const auto rows = static_cast<std::int64_t>(more);
    const std::vector<Token> whole(text_.begin(), from + rows);
    const at::Tensor want = chain(model_.make_cache(), whole);
    expect_same(chain(cache, rest), want.narrow(0, want.size(0) - rows, rows), "truncated");
  }

  const c10::InferenceMode no_autograd_;
  std::mt19937 random_{7};
  DecoderLm model_;
  std::vector<Token> text_;
};

TEST_P(DecoderRows, ARowOfATreeIsThatOfItsChain) {
  for (const std::size_t prefix : {1, 60, 63, 66, 70, 249, 252, 255, 260, 509, 515}) {
    KvCache cache = prefilled(prefix);
    for (const std::int32_t rows : {1, 6, 31}) {
      const Tree t = tree(rows);
      const at::Tensor want = chains(t, cache);
      for (const int threads : {1, 2}) {
        at::set_num_threads(threads);
        KvCache own = cache.share(cache.length());
        expect_same(run(t, own), want, "prefix " + std::to_string(prefix));
      }
      at::set_num_threads(1);
    }
  }
}

TEST_P(DecoderRows, TreesOfSeveralPagesAreTheirChains) {
  KvCache cache = prefilled(240);
  const Tree t = tree(150);
  const at::Tensor want = chains(t, cache);
  expect_same(run(t, cache), want, "150 rows");
}

TEST_P(DecoderRows, TreesAndChainsShareAPass) {
  KvCache a = prefilled(62), b = prefilled(254), c = prefilled(30), d = prefilled(64);
  const Tree first = tree(20), second = tree(9);
  const std::vector<Token> text(text_.begin() + 100, text_.begin() + 112);
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    KvCache own_a = a.share(62), own_b = b.share(254), own_c = c.share(30), own_d = d.share(64);
    const std::vector<SequenceSpan> spans = {first.span(own_a),
                                             {.cache = &own_c, .tokens = text, .scored = 5},
                                             second.span(own_b),
                                             {.cache = &own_d, .tokens = text, .scored = 12}};
    const at::Tensor out = forward(model_, spans).clone();
    expect_same(out.narrow(0, 0, 20), chains(first, a), "first");
    expect_same(out.narrow(0, 20, 5), chain(c, text).narrow(0, 7, 5), "chain");
    expect_same(out.narrow(0, 25, 9), chains(second, b), "second");
    expect_same(out.narrow(0, 34, 12), chain(d, text), "chain");
    EXPECT_EQ(own_a.length(), 62);
    EXPECT_TRUE(own_a.pending());
    EXPECT_EQ(own_c.length(), 42);
    EXPECT_FALSE(own_c.pending());
  }
}

TEST_P(DecoderRows, AKeptPathIsTheChainAndTheRestGoesBack) {
  for (const std::size_t prefix : {1, 60, 63, 250, 255, 511}) {
    const auto pool = std::make_shared<KvPool>();
    KvCache cache = prefilled(prefix, pool);
    const std::size_t used = pool->used() - state_bytes(cache);
    for (int round = 0; round < 4; ++round) {
      const Tree t = tree(90);
      const KvCache before = cache.share(cache.length());
      const RowPlan plan = RowPlan::of(90, t.parents, {});
      std::size_t more = cache.bytes_to_reserve(plan);
      if (recurs()) more -= cache.recurrent()->bytes_to_reserve(plan);
      const std::size_t held = pool->used() - state_bytes(cache);
      run(t, cache);
      EXPECT_EQ(pool->used() - state_bytes(cache), held + more);
      const Rows path = t.path_to(static_cast<std::int32_t>(random_() % 90));
      cache.keep(path);
      ASSERT_EQ(cache.length(), before.length() + static_cast<std::int64_t>(path.size()));
      std::vector<Token> text = t.text_of(path);
      text.insert(text.end(), {5, 9, 140});
      const at::Tensor whole = chain(before, text);
      expect_same(chain(cache, {5, 9, 140}), whole.narrow(0, whole.size(0) - 3, 3),
                  "prefix " + std::to_string(prefix));
    }
    const std::int64_t length = cache.length();
    run(tree(10), cache);
    cache.truncate(length);
    EXPECT_FALSE(cache.pending());
    cache.truncate(static_cast<std::int64_t>(prefix));
    if (recurs()) expect_a_start_of_the_text(cache, prefix);
    if (!int8()) continue;
    if (cache.length() == static_cast<std::int64_t>(prefix)) {
      EXPECT_EQ(pool->used() - state_bytes(cache), used);
    } else {
      EXPECT_LE(pool->used() - state_bytes(cache), used);
    }
  }
}

// Two mask blocks after two ends of a tree: what a row of a block gets does not depend on the
// other.
TEST_P(DecoderRows, ABlockSeesItselfAndItsAncestorsOnly) {
  KvCache cache = prefilled(62);
  const Tree both = {
      {9, 8, 7, 1, 1, 1, 2, 2, 2}, {-1, 0, 0, 1, 3, 4, 2, 6, 7}, {-1, -1, -1, 0, 0, 0, 1, 1, 1}};
  const Tree one = {{9, 7, 2, 2, 2}, {-1, 0, 1, 2, 3}, {-1, -1, 4, 4, 4}};
  const Tree causal = {one.tokens, one.parents};
  KvCache a = cache.share(62), b = cache.share(62), c = cache.share(62);
  if (recurs()) {  // which read texts in order
    EXPECT_THROW(run(both, a), std::invalid_argument);
    EXPECT_THROW(run(one, b), std::invalid_argument);
    EXPECT_FALSE(a.pending() || b.pending());
    expect_same(chain(a, causal.tokens), chain(cache, causal.tokens), "after refusals");
    return;
  }
  const at::Tensor in_both = run(both, a), alone = run(one, b), without = run(causal, c);
  expect_same(in_both.narrow(0, 6, 3), alone.narrow(0, 2, 3), "block");
  expect_same(alone.narrow(0, 0, 2), without.narrow(0, 0, 2), "before the block");
  EXPECT_GT(distance(alone[2], without[2]), 1e-3);  // it sees ahead
  // The last row sees the same in either; but what it sees has seen more.
  a.keep(Rows{0, 2});
  expect_same(chain(a, {3, 4}), chain(cache, {9, 7, 3, 4}).narrow(0, 2, 2), "after the block");
}

TEST_P(DecoderRows, StatesAndLogitsAreThoseOfTheRowsWanted) {
  KvCache cache = prefilled(62);
  const Tree t = tree(12);
  const std::vector<std::int64_t> kept = {1, 0};
  const std::int64_t width = 2 * model_.config.hidden;
  const Rows wanted = {7, 0, 11};
  at::Tensor states = at::zeros({12, width});
  KvCache a = cache.share(62), b = cache.share(62);
  const at::Tensor all = run(t, a);
  SequenceSpan span = t.span(b);
  span.scored = 0;
  span.scored_rows = wanted;
  span.states = states.data_ptr<float>();
  const at::Tensor some = forward(model_, {&span, 1}, kept).clone();
  for (std::int64_t i = 0; i < 3; ++i)
    expect_same(some[i], all[wanted[static_cast<std::size_t>(i)]], "logits");
  for (std::int32_t row = 0; row < 12; ++row) {
    const std::vector<Token> text = t.text_of(t.path_to(row));
    const auto n = static_cast<std::int64_t>(text.size());
    const at::Tensor alone = at::zeros({n, width});
    KvCache own = cache.share(62);
    const SequenceSpan chain_span{
        .cache = &own, .tokens = text, .scored = 0, .states = alone.data_ptr<float>()};
    forward(model_, {&chain_span, 1}, kept);
    if (int8()) {
      EXPECT_TRUE(at::equal(states[row], alone[n - 1])) << row;
    } else {
      EXPECT_LT(distance(states[row], alone[n - 1]), 0.3) << row;
    }
  }
}

TEST_P(DecoderRows, AFullPoolAndTheContextsEndRefuseATreeBeforeItRuns) {
  KvCache probe = model_.make_cache();
  const auto pool = std::make_shared<KvPool>(probe.bytes_to_reserve(20));
  KvCache cache = model_.make_cache(pool);
  pass(model_, cache, std::span(text_).first(20));
  const Tree t = tree(int8() ? 10 : 250);  // a page for the branches; more rows than there is room
  EXPECT_THROW(run(t, cache), KvPoolFull);
  EXPECT_EQ(cache.length(), 20);
  EXPECT_FALSE(cache.pending());
  EXPECT_EQ(pool->used(), pool->limit());

  model_.config.context = 32;
  KvCache last = prefilled(30);
  const Tree two = {{1, 2, 3, 4}, {-1, -1, 0, 1}}, three = {{1, 2, 3}, {-1, 0, 1}};
  KvCache own = last.share(30);
  EXPECT_THROW(run(three, own), std::invalid_argument);
  EXPECT_FALSE(own.pending());
  expect_same(run(two, own), chains(two, last), "at the end");
}

TEST_P(DecoderRows, WrongPlansAndPathsAreRefused) {
  KvCache cache = prefilled(5);
  const Tree later = {{1, 2}, {-1, 1}}, twice = {{1, 2, 3}, {-1, -1, 0}, {-1, 5, 5}};
  EXPECT_THROW(run(later, cache), std::invalid_argument);
  EXPECT_THROW(run(twice, cache), std::invalid_argument);
  EXPECT_THROW(cache.keep(Rows{0}), std::logic_error);
  const Tree t = {{1, 2, 3, 4}, {-1, 0, 0, 2}};
  SequenceSpan span = t.span(cache);
  const Rows outside = {4};
  span.scored_rows = outside;
  EXPECT_THROW(forward(model_, {&span, 1}), std::invalid_argument);
  run(t, cache);
  EXPECT_THROW(run(t, cache), std::invalid_argument);  // rows are pending
  EXPECT_THROW(cache.reserve(1), std::logic_error);
  for (const Rows& path : {Rows{1}, Rows{0, 3}, Rows{0, 1, 2}, Rows{4}, Rows{-1}}) {
    EXPECT_THROW(cache.keep(path), std::invalid_argument);
  }
  cache.keep(Rows{0, 2, 3});
  EXPECT_EQ(cache.length(), 8);
}

TEST_P(DecoderRows, EmbeddingsTakeTheTokensPlace) {
  KvCache cache = prefilled(62);
  const std::vector<Token> tokens = {5, 17, 3};
  const DecoderLm f32 =
      load_decoder(load_gguf(kTiny + std::get<0>(GetParam()) + "/model.gguf"), Precision::kF32);
  const at::Tensor ids = at::tensor({5, 17, 3}, at::kLong);
  at::Tensor rows = f32.embedding.index_select(0, ids);
  if (std::get<1>(GetParam()) != Precision::kF32) rows = rows.to(at::kBFloat16).to(at::kFloat);
  const auto scale = static_cast<float>(model_.config.embedding_scale);
  rows = (rows * scale).contiguous();
  KvCache own = cache.share(62);
  const SequenceSpan span{
      .cache = &own,
      .scored = 3,
      .embeddings = {rows.const_data_ptr<float>(), static_cast<std::size_t>(rows.numel())}};
  const at::Tensor out = forward(model_, {&span, 1}).clone();
  expect_same(out, chain(cache, tokens), "embeddings");
  EXPECT_EQ(own.length(), 65);
  SequenceSpan both = span;
  both.tokens = tokens;
  EXPECT_THROW(forward(model_, {&both, 1}), std::invalid_argument);
}

std::string name_of_rows(const ::testing::TestParamInfo<std::tuple<std::string, Precision>>& p) {
  return std::get<0>(p.param) + "_" + std::string(name_of(std::get<1>(p.param)));
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, DecoderRows,
    ::testing::Combine(::testing::Values("llama", "qwen2", "qwen3", "gemma3", "gemma3_softcap",
                                         "qwen3_moe", "smollm3", "phi3", "granite", "olmo3",
                                         "gpt_oss"),
                       ::testing::Values(Precision::kF32, Precision::kBF16, Precision::kInt8)),
    name_of_rows);

INSTANTIATE_TEST_SUITE_P(Recurrent, DecoderRows,
                         ::testing::Combine(::testing::Values("lfm2", "qwen3_5"),
                                            ::testing::Values(Precision::kF32, Precision::kBF16,
                                                              Precision::kInt8)),
                         name_of_rows);

// Not in bf16, which chooses other experts where two are nearly as likely.
INSTANTIATE_TEST_SUITE_P(Experts, DecoderRows,
                         ::testing::Combine(::testing::Values("qwen2_moe", "olmoe", "glm4_moe",
                                                              "glm4_moe_groups", "granite_moe",
                                                              "ernie", "lfm2_moe",
                                                              "qwen3_next_experts", "qwen3_5_moe"),
                                            ::testing::Values(Precision::kF32, Precision::kInt8)),
                         name_of_rows);

}  // namespace
}  // namespace forerun
