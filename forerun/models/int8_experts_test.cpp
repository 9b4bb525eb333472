// Layers of experts in the int8 engine: close to float32, and bit for bit the same for any split of
// a text into passes. Of sizes that no kernel likes, in int8, in 4 bits, and in both.
#include "forerun/models/int8_experts.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "forerun/models/four_bit_block.h"
#include "forerun/models/int8_decoder.h"
#include "forerun/models/random_decoder.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/any_cut.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

// Mixed: one expert, and the shared one, in int8; first wide: the first expert.
enum class Form : std::uint8_t { kInt8, kInt4, kMixed, kFirstWide };
// As Qwen3-MoE, with the sum of one and without; as Qwen2-MoE; as GLM-4.5.
enum class Kind : std::uint8_t { kPlain, kSumOne, kGatedShared, kSigmoids };

DecoderConfig some_experts(Kind kind) {
  DecoderConfig c(Family::kQwen3);
  c.vocab = 333;
  c.hidden = 224;
  c.layers = 2;
  c.heads = 10;
  c.kv_heads = 2;
  c.head_dim = 32;
  c.intermediate = 352;
  c.context = 700;
  c.query_scale = 0.2;
  c.experts = 7;
  c.experts_used = 3;
  c.norm_topk_prob = kind == Kind::kSumOne || kind == Kind::kSigmoids;
  if (kind == Kind::kGatedShared) {
    c.shared_intermediate = 160;
    c.shared_gate = true;
  }
  if (kind == Kind::kSigmoids) {
    c.dense = {true, false};
    c.dense_intermediate = 704;
    c.experts = 8;
    c.experts_used = 4;
    c.shared_intermediate = 480;
    c.routing = {.sigmoid = true, .corrected = true, .scale = 1.7, .groups = 4, .groups_used = 3};
  }
  c.sliding.assign(static_cast<std::size_t>(c.layers), false);
  return c;
}

// Weights large enough that a wrong expert or share moves the logits.
DecoderLm some_decoder(const DecoderConfig& c) {
  DecoderLm m = random_decoder(c, 5);
  for (TransformerBlock& b : m.layers) {
    if (b.experts.empty()) continue;
    b.router.bias = at::linspace(-0.3, 0.3, c.experts);
    if (c.routing.corrected) b.correction = at::linspace(0.5, -0.5, c.experts);
  }
  for (const ModelWeight& w : weights(m)) {
    const bool expert = w.name.find("mlp.experts") != std::string::npos;
    if (w.shape.size() == 2 && w.tensor != &m.embedding) w.tensor->mul_(expert ? 6.0 : 5.0);
  }
  m.embedding.mul_(50.0);
  return m;
}

// The same model as the int8 engine has it; `f32` becomes one with the numbers of its 4 bits.
DecoderLm packed(DecoderLm& f32, Form form) {
  Arena arena;
  std::vector<Int8Block> layers;
  for (TransformerBlock& block : f32.layers) {
    TransformerBlock b = block;
    if (form != Form::kInt8) {
      b = in_four_bits(block);
      round_to_four_bits(block);
    }
    if (form == Form::kMixed && !b.experts.empty()) {
      b.experts[4] = block.experts[4];
      b.shared = block.shared;
    }
    if (form == Form::kFirstWide && !b.experts.empty()) b.experts[0] = block.experts[0];
    layers.push_back(Int8Block::pack(b, f32.config, arena));
  }
  DecoderLm m;
  m.config = f32.config;
  m.precision = Precision::kInt8;
  m.int8 =
      std::make_shared<Int8Decoder>(f32.config, f32.embedding.to(at::kBFloat16), std::move(layers),
                                    f32.final_norm, Int8Matrix::pack(f32.head(), {}, arena));
  return m;
}

class Int8ExpertsOf : public ::testing::TestWithParam<std::tuple<Form, Kind>> {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    f32_ = some_decoder(some_experts(std::get<1>(GetParam())));
    model_ = packed(f32_, std::get<0>(GetParam()));
    for (std::size_t i = 0; i < 300; ++i) text_.push_back(static_cast<Token>(i * i * 7 % 333));
  }
  // That have experts.
  double layers() const { return f32_.config.dense.empty() ? 2.0 : 1.0; }
  static double size(const at::Tensor& t) { return t.square().mean().sqrt().item<double>(); }
  at::Tensor whole(const DecoderLm& model) const {
    KvCache cache = model.make_cache();
    return pass(model, cache, text_);
  }

  const c10::InferenceMode no_autograd_;
  DecoderLm f32_, model_;
  std::vector<Token> text_;
};

TEST_P(Int8ExpertsOf, StaysCloseToFloat32) {
  const at::Tensor exact = whole(f32_), error = whole(model_) - exact;
  // Where two experts are as likely rounding may choose the other: not in most rows.
  EXPECT_LT(error.square().mean(1).sqrt().median().item<double>(), 0.03 * size(exact));
  EXPECT_LT(size(error), 0.08 * size(exact));
  DecoderConfig other = f32_.config;
  other.norm_topk_prob = !other.norm_topk_prob;
  DecoderLm wrong = f32_;
  wrong.config = other;
  EXPECT_GT(size(whole(wrong) - exact), 0.12 * size(exact));  // what this test can see
}

TEST_P(Int8ExpertsOf, AnyCutOfTheTextGivesTheSameBitForBit) {
  expect_any_cut_is_whole(model_, text_, {1, 2, 7, 64, 130});
}

// A pass of one row reads the weights of the experts that it uses.
TEST_P(Int8ExpertsOf, TheBytesOfAPassAreThoseOfTheExpertsUsed) {
  DecoderConfig all = f32_.config;
  all.experts_used = all.experts;
  all.routing.groups_used = all.routing.groups;
  DecoderLm every = some_decoder(all);
  const std::int64_t some_bytes = model_.weight_bytes(),
                     all_bytes = packed(every, std::get<0>(GetParam())).weight_bytes();
  EXPECT_LT(some_bytes, all_bytes);
  const double weights = layers() * 4 * 3 * 224 * 352;  // of experts that are not used
  const double share = static_cast<double>(all_bytes - some_bytes) / weights;
  // 4-bit weights have 5 bits each; gates and ups are padded from 352 to 384.
  EXPECT_GT(share, std::get<0>(GetParam()) == Form::kInt8 ? 1.0 : 0.625);
  const bool narrow =
      std::get<0>(GetParam()) == Form::kInt4 || std::get<0>(GetParam()) == Form::kFirstWide;
  EXPECT_LT(share, narrow ? 0.9 : 1.1);
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<Form, Kind>>& p) {
  constexpr const char *kForms[] = {"int8", "int4", "mixed", "first_wide"},
                       *kKinds[] = {"", "_sum_one", "_gated_shared", "_sigmoids"};
  const auto [form, kind] = p.param;
  return std::string(kForms[static_cast<std::size_t>(form)]) +
         kKinds[static_cast<std::size_t>(kind)];
}

INSTANTIATE_TEST_SUITE_P(Forms, Int8ExpertsOf,
                         ::testing::Combine(::testing::Values(Form::kInt8, Form::kInt4,
                                                              Form::kMixed, Form::kFirstWide),
                                            ::testing::Values(Kind::kPlain, Kind::kSumOne,
                                                              Kind::kGatedShared, Kind::kSigmoids)),
                         name_of_case);

class Int8SharedExpert : public Int8ExpertsOf {};

TEST_P(Int8SharedExpert, IsAmongTheBytesOfAPass) {
  DecoderConfig c = f32_.config;
  const std::int64_t width = std::exchange(c.shared_intermediate, 0);
  const std::int64_t gate = std::exchange(c.shared_gate, false) ? 224 : 0;
  DecoderLm without = some_decoder(c);
  const auto weights = static_cast<double>(3 * 224 * width);
  EXPECT_EQ(static_cast<double>(f32_.weight_bytes() - without.weight_bytes()),
            layers() * 4.0 * (weights + static_cast<double>(gate)));
  const Form form = std::get<0>(GetParam());
  const std::int64_t more = model_.weight_bytes() - packed(without, form).weight_bytes();
  const double share = static_cast<double>(more) / (layers() * weights);
  const bool wide = form == Form::kInt8 || form == Form::kMixed;
  EXPECT_GT(share, wide ? 1.0 : 0.625);
  EXPECT_LT(share, wide ? 1.3 : 0.9);  // gates and ups are padded to 192, to 576
}

INSTANTIATE_TEST_SUITE_P(Forms, Int8SharedExpert,
                         ::testing::Combine(::testing::Values(Form::kInt8, Form::kInt4,
                                                              Form::kMixed, Form::kFirstWide),
                                            ::testing::Values(Kind::kGatedShared, Kind::kSigmoids)),
                         name_of_case);

class Int8Expert : public Int8ExpertsOf {};

TEST_P(Int8Expert, OfEquallyLikelyOnesTheFirstIsUsed) {
  DecoderConfig c = some_experts(Kind::kSumOne);
  c.experts_used = 1;
  DecoderLm m = some_decoder(c);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (TransformerBlock& b : m.layers) {
    for (const int e : {2, 5}) {  // float32 products of equal rows may differ in their last bits
      b.router.weight[e].zero_();
      b.router.bias[e].fill_(30.0F);
    }
    b.experts[5].down.weight.fill_(nan);
  }
  EXPECT_TRUE(whole(packed(m, Form::kInt8)).isfinite().all().item<bool>());
  EXPECT_TRUE(whole(m).isfinite().all().item<bool>());
  for (TransformerBlock& b : m.layers) b.experts[2].down.weight.fill_(nan);
  EXPECT_FALSE(whole(packed(m, Form::kInt8)).isfinite().all().item<bool>());
  EXPECT_FALSE(whole(m).isfinite().all().item<bool>());
}

TEST_P(Int8Expert, RowsThatAreNoNumbersAreThoseAlone) {
  DecoderLm m = some_decoder(some_experts(Kind::kPlain));
  m.embedding[11].fill_(std::numeric_limits<float>::quiet_NaN());
  const DecoderLm int8 = packed(m, Form::kInt8);
  const std::vector<Token> with = {3, 7, 11, 5}, without = {3, 7};
  KvCache a = int8.make_cache(), b = int8.make_cache();
  const at::Tensor out = pass(int8, a, with), alone = pass(int8, b, without);
  EXPECT_TRUE(at::equal(out.narrow(0, 0, 2), alone));
  EXPECT_TRUE(out[2].isnan().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Alone, Int8Expert,
                         ::testing::Values(std::tuple(Form::kInt8, Kind::kPlain)));

}  // namespace
}  // namespace forerun
