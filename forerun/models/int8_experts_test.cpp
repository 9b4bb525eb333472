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

#include "forerun/models/four_bit_block.h"
#include "forerun/models/int8_decoder.h"
#include "forerun/models/random_decoder.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/any_cut.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

enum class Form : std::uint8_t { kInt8, kInt4, kMixed };  // mixed: one expert in int8

DecoderConfig some_experts(bool norm_topk_prob) {
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
  c.norm_topk_prob = norm_topk_prob;
  c.sliding.assign(2, false);
  return c;
}

// Weights large enough that a wrong expert or share moves the logits.
DecoderLm some_decoder(const DecoderConfig& c) {
  DecoderLm m = random_decoder(c, 5);
  for (TransformerBlock& b : m.layers) b.router.bias = at::linspace(-0.3, 0.3, c.experts);
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
    if (form == Form::kMixed) b.experts[4] = block.experts[4];
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

class Int8ExpertsOf : public ::testing::TestWithParam<std::tuple<Form, bool>> {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    f32_ = some_decoder(some_experts(std::get<1>(GetParam())));
    model_ = packed(f32_, std::get<0>(GetParam()));
    for (std::size_t i = 0; i < 300; ++i) text_.push_back(static_cast<Token>(i * i * 7 % 333));
  }
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
  DecoderLm every = some_decoder(all);
  const std::int64_t some_bytes = model_.weight_bytes(),
                     all_bytes = packed(every, std::get<0>(GetParam())).weight_bytes();
  EXPECT_LT(some_bytes, all_bytes);
  const double weights = 2.0 * 4 * 3 * 224 * 352;  // of experts that are not used
  const double share = static_cast<double>(all_bytes - some_bytes) / weights;
  // 4-bit weights have 5 bits each; gates and ups are padded from 352 to 384.
  EXPECT_GT(share, std::get<0>(GetParam()) == Form::kInt8 ? 1.0 : 0.625);
  EXPECT_LT(share, std::get<0>(GetParam()) == Form::kInt4 ? 0.7 : 1.1);
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<Form, bool>>& p) {
  const auto [form, norm] = p.param;
  const char* name = form == Form::kInt8 ? "int8" : form == Form::kInt4 ? "int4" : "mixed";
  return std::string(name) + (norm ? "_sum_one" : "");
}

INSTANTIATE_TEST_SUITE_P(Forms, Int8ExpertsOf,
                         ::testing::Combine(::testing::Values(Form::kInt8, Form::kInt4,
                                                              Form::kMixed),
                                            ::testing::Bool()),
                         name_of_case);

class Int8Expert : public Int8ExpertsOf {};

TEST_P(Int8Expert, OfEquallyLikelyOnesTheFirstIsUsed) {
  DecoderConfig c = some_experts(true);
  c.experts_used = 1;
  DecoderLm m = some_decoder(c);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (TransformerBlock& b : m.layers) {
    b.router.weight[5].copy_(b.router.weight[2]);
    b.router.bias[5].copy_(b.router.bias[2]);
    b.experts[5].down.weight.fill_(nan);
  }
  EXPECT_TRUE(whole(packed(m, Form::kInt8)).isfinite().all().item<bool>());
  for (TransformerBlock& b : m.layers) b.experts[2].down.weight.fill_(nan);
  EXPECT_FALSE(whole(packed(m, Form::kInt8)).isfinite().all().item<bool>());
}

TEST_P(Int8Expert, RowsThatAreNoNumbersAreThoseAlone) {
  DecoderLm m = some_decoder(some_experts(false));
  m.embedding[11].fill_(std::numeric_limits<float>::quiet_NaN());
  const DecoderLm int8 = packed(m, Form::kInt8);
  const std::vector<Token> with = {3, 7, 11, 5}, without = {3, 7};
  KvCache a = int8.make_cache(), b = int8.make_cache();
  const at::Tensor out = pass(int8, a, with), alone = pass(int8, b, without);
  EXPECT_TRUE(at::equal(out.narrow(0, 0, 2), alone));
  EXPECT_TRUE(out[2].isnan().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Alone, Int8Expert, ::testing::Values(std::tuple(Form::kInt8, false)));

}  // namespace
}  // namespace forerun
