// The int8 network against the float32 one, and independence of a sequence's output from its pass.
#include "forerun/models/dflash/dflash_passes.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/random_dflash.h"

namespace forerun {
namespace {

struct Kind {
  const char* name;
  bool slot_state, markov, reduced, next;
  double softcap = 0.0;
  std::int64_t conv_taps = 0;
  bool gated = false;
  std::int64_t selector = 0;  // its rank
  std::int64_t bits = 0;      // of weights
};

DFlash network(const Kind& kind) {
  DFlashConfig c = small_dflash({kFull, kCausalWindow});
  c.hidden = 64;
  c.intermediate = 96;
  c.head_dim = 32;
  c.vocab = 90;
  c.draft_vocab = kind.reduced ? 48 : 90;
  c.slot_state = kind.slot_state;
  c.markov_rank = kind.markov ? 32 : 0;
  c.confidence = kind.markov;
  c.predicts_next = kind.next;
  c.final_softcap = kind.softcap;
  c.conv_taps = kind.conv_taps;
  c.markov_gated = kind.gated;
  c.selector_rank = kind.selector;
  c.selector_top_k = 6;
  c.weight_bits = kind.bits;
  DFlash m = noisy_dflash(c, at::kFloat, 5);
  if (kind.reduced) m.draft_to_target = at::arange(5, 53, at::kLong);
  return m;
}

std::vector<float> numbers(const at::Tensor& t) {
  const at::Tensor flat = t.flatten().contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

double cosine(const at::Tensor& a, const at::Tensor& b) {
  return ((a * b).sum() / (a.norm() * b.norm())).item<double>();
}

class Passes : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  }
  const DFlash model = network(GetParam());
  const at::Tensor states = random_features(model.config, 40, at::kFloat, 6);
  const std::vector<float> rows = numbers(states);

  BlockSpan span(DFlashContext& context, std::int64_t fresh, Token anchor,
                 std::int64_t drafts) const {
    return {.context = &context,
            .features = rows.data() + context.length() * states.size(1),
            .fresh = fresh,
            .anchor = anchor,
            .drafts = drafts};
  }
};

TEST_P(Passes, Int8IsNearTheTensors) {
  const auto exact = DFlashPasses::make(model, Precision::kF32);
  const auto fast = DFlashPasses::make(model, Precision::kInt8);
  const auto a = exact->make_context(), b = fast->make_context();
  for (const std::int64_t fresh : {17, 1, 5}) {  // a prompt, then the kept rows of rounds
    const BlockSpan of_a = span(*a, fresh, 7, 4), of_b = span(*b, fresh, 7, 4);
    const auto want = exact->forward({&of_a, 1}), have = fast->forward({&of_b, 1});
    ASSERT_EQ(have.logits.sizes(), want.logits.sizes());
    EXPECT_GT(cosine(have.logits, want.logits), 0.995);
    EXPECT_GT(cosine(have.hidden, want.hidden), 0.995);
    ASSERT_EQ(have.states.sizes(), want.states.sizes());
    if (have.states.numel() > 0) {
      EXPECT_GT(cosine(have.states, want.states), 0.99);
    }
    EXPECT_EQ(a->length(), b->length());
  }
}

TEST_P(Passes, FourBitsAreReadWhereTheyAreLearned) {
  DFlash other = model;
  other.config.weight_bits = 4 - model.config.weight_bits;
  const auto bytes = [](const DFlash& m) {
    return static_cast<double>(DFlashPasses::make(m, Precision::kInt8)->weight_bytes());
  };
  const double four = bytes(model.config.weight_bits == 4 ? model : other),
               eight = bytes(model.config.weight_bits == 4 ? other : model);
  EXPECT_LT(four, 0.75 * eight);  // 5 bits a weight with the groups' scales; convolutions have 8
}

// Weights that a scale of float16 cannot reach stay in 8 bits, all of them.
TEST_P(Passes, TooLargeWeightsAreNotPackedInFourBits) {
  if (model.config.weight_bits != 4) GTEST_SKIP();
  DFlash large = model;
  large.layers[1].v.weight = large.layers[1].v.weight * 1e8;
  DFlash eight = large;
  eight.config.weight_bits = 0;
  const auto have = DFlashPasses::make(large, Precision::kInt8),
             want = DFlashPasses::make(eight, Precision::kInt8);
  EXPECT_EQ(have->weight_bytes(), want->weight_bytes());
  const auto a = have->make_context(), b = want->make_context();
  const BlockSpan of_a = span(*a, 9, 7, 4), of_b = span(*b, 9, 7, 4);
  EXPECT_TRUE(at::equal(have->forward({&of_a, 1}).logits, want->forward({&of_b, 1}).logits));
  const auto exact = DFlashPasses::make(large, Precision::kF32);
  const auto c = exact->make_context();
  const BlockSpan of_c = span(*c, 9, 7, 4);
  EXPECT_TRUE(exact->forward({&of_c, 1}).logits.isfinite().all().item<bool>());
}

TEST_P(Passes, TheHeadsAreNearToo) {
  if (!GetParam().markov) GTEST_SKIP();
  const auto exact = DFlashPasses::make(model, Precision::kF32);
  const auto fast = DFlashPasses::make(model, Precision::kInt8);
  std::vector<float> want(static_cast<std::size_t>(model.config.draft_vocab), 1.0F), have = want;
  const at::Tensor hidden = states.narrow(0, 3, 1).narrow(1, 0, model.config.hidden);
  const Linear projection = slot_projection(model);
  const at::Tensor slot = projection.weight.defined() ? projection(hidden) : at::Tensor();
  const std::vector<float> state = slot.defined() ? numbers(slot) : std::vector<float>();
  exact->condition(11, state, want);
  fast->condition(11, state, have);
  const at::Tensor w = at::tensor(want), h = at::tensor(have);
  EXPECT_GT(cosine(h - 1.0, w - 1.0), 0.999);
  const at::Tensor bias =
      markov_bias(model, hidden, at::tensor({std::int64_t{11}}, at::kLong)).view(-1);
  EXPECT_LT((w - 1.0 - bias).abs().max().item<double>(), 1e-5);
  std::vector<float> some = {0.0F, 0.0F};
  fast->condition(11, state, std::vector<std::int32_t>{7, 2}, some);
  EXPECT_NEAR(some[0], bias[7].item<double>(), 1e-5);
  EXPECT_NEAR(some[1], bias[2].item<double>(), 1e-5);
  const double logit =
      confidence(model, hidden, at::tensor({std::int64_t{11}}, at::kLong)).item<double>();
  EXPECT_NEAR(fast->confidence(numbers(hidden), 11), 1.0 / (1.0 + std::exp(-logit)), 1e-5);
}

// Alone, with other sequences, context read in pieces or with the block: bit for bit the same.
TEST_P(Passes, Int8DoesNotDependOnCompanyOrPieces) {
  const auto net = DFlashPasses::make(model, Precision::kInt8);
  const auto alone = net->make_context();
  const BlockSpan whole = span(*alone, 23, 7, 4);
  const auto want = net->forward({&whole, 1});

  const auto pieces = net->make_context(), other = net->make_context(), third = net->make_context();
  for (const std::int64_t fresh : {9, 1, 13}) {
    const BlockSpan some = span(*pieces, fresh, 0, 0);
    EXPECT_EQ(net->forward({&some, 1}).logits.size(0), 0);
  }
  const std::vector<BlockSpan> company = {span(*other, 5, 3, 2), span(*pieces, 0, 7, 4),
                                          span(*third, 30, 0, 0)};
  const auto have = net->forward(company);
  ASSERT_EQ(have.logits.size(0), 6);
  EXPECT_TRUE(at::equal(have.logits.narrow(0, 2, 4), want.logits));
  EXPECT_TRUE(at::equal(have.hidden.narrow(0, 2, 4), want.hidden));

  // And the block added nothing to the context.
  const BlockSpan again = span(*pieces, 0, 7, 4);
  EXPECT_TRUE(at::equal(net->forward({&again, 1}).logits, want.logits));
}

TEST_P(Passes, Int8DoesNotDependOnThreads) {
  const int before = at::get_num_threads();
  const auto net = DFlashPasses::make(model, Precision::kInt8);
  at::Tensor want;
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    const auto context = net->make_context();
    const BlockSpan all = span(*context, 23, 7, 4);
    const at::Tensor have = net->forward({&all, 1}).logits;
    if (!want.defined()) want = have;
    EXPECT_TRUE(at::equal(have, want)) << threads << " threads";
  }
  at::set_num_threads(before);
}

// Only the largest logits are candidates, and each gets its score after the token before.
TEST_P(Passes, TheSelectorScoresItsCandidates) {
  if (GetParam().selector == 0) GTEST_SKIP();
  const auto net = DFlashPasses::make(model, Precision::kInt8);
  const auto context = net->make_context();
  const BlockSpan all = span(*context, 23, 7, 4);
  const auto blocks = net->forward({&all, 1});
  for (const Token previous : {0, 11, 89}) {
    for (std::int64_t k = 0; k < 4; ++k) {
      std::vector<float> row = numbers(blocks.logits[k]);
      const at::Tensor plain = at::tensor(row);
      net->condition(previous, blocks.state(k), row);
      const auto [values, ids] = plain.topk(6);
      const at::Tensor state = blocks.states[k];
      const at::Tensor added =
          at::matmul(model.successors.index_select(0, ids), model.predecessors[previous] * state);
      at::Tensor want = at::full_like(plain, -INFINITY).index_put({ids}, values + added);
      EXPECT_TRUE(at::allclose(at::tensor(row), want, 1e-4, 1e-4)) << previous << " " << k;
      const std::vector<std::int32_t> candidates = net->candidates(numbers(plain));
      std::vector<float> some = {plain[candidates[4]].item<float>(),
                                 plain[candidates[1]].item<float>()};
      net->condition(previous, blocks.state(k),
                     std::vector<std::int32_t>{candidates[4], candidates[1]}, some);
      EXPECT_EQ(some[0], row[static_cast<std::size_t>(candidates[4])]);
      EXPECT_EQ(some[1], row[static_cast<std::size_t>(candidates[1])]);
    }
  }
}

TEST_P(Passes, DraftIdsAreTokensOfTheTarget) {
  const auto net = DFlashPasses::make(model, Precision::kInt8);
  for (std::int64_t i = 0; i < model.config.draft_vocab; ++i) {
    const std::int64_t want =
        model.draft_to_target.defined() ? model.draft_to_target[i].item<std::int64_t>() : i;
    EXPECT_EQ(net->token(i), want);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Passes,
    ::testing::Values(Kind{"Paper", false, false, false, false},
                      Kind{"Reduced", false, false, true, true},
                      Kind{"DSpark", false, true, true, true},
                      Kind{"SlotState", true, true, true, true},
                      Kind{"Everything", true, true, true, true, 8.0},
                      Kind{"Convolved", false, false, false, false, 0.0, 2},
                      Kind{"WideConvolved", true, true, true, true, 0.0, 4},
                      Kind{"Gated", false, true, true, true, 0.0, 0, true},
                      Kind{"Selector", true, false, true, true, 0.0, 0, false, 16},
                      Kind{"DFlash2", false, false, false, false, 0.0, 2, false, 20},
                      Kind{"FourBits", true, true, true, true, 0.0, 0, false, 0, 4},
                      Kind{"FourBitsGated", true, true, false, true, 0.0, 2, true, 0, 4},
                      Kind{"FourBitsSelector", true, false, true, true, 0.0, 0, false, 16, 4}),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace forerun
