// gpt-oss in the forms that its weights come in: experts in one tensor, in MXFP4 as Hugging Face
// and as GGUF store it. transformers' logits are checked with those of the other families.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "forerun/models/internal/gpt_oss_experts.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/any_cut.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

const std::string kMxfp4 = kTiny + "gpt_oss_mxfp4";

DecoderLm from_folder(Precision precision) {
  return load_decoder(load_hf_config(kMxfp4), load_safetensors(kMxfp4), kMxfp4, precision);
}

at::Tensor logits_of(const DecoderLm& model, const std::vector<Token>& tokens) {
  KvCache cache = model.make_cache();
  return pass(model, cache, tokens).clone();
}

class GptOssInFourBits : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
  }
  const c10::InferenceMode no_autograd_;
};

TEST_F(GptOssInFourBits, AFolderAndAGgufFileAreTheSameBitForBit) {
  const std::vector<Token> text =
      tokens_of(load_safetensors(kMxfp4 + "/expected.safetensors"), "tokens_0");
  const DecoderLm folder = from_folder(Precision::kInt4);
  const DecoderLm gguf = load_decoder(load_gguf(kMxfp4 + "/model.gguf"), Precision::kInt4);
  EXPECT_TRUE(at::equal(logits_of(folder, text), logits_of(gguf, text)));
  EXPECT_EQ(folder.weight_bytes(), gguf.weight_bytes());
  EXPECT_LT(folder.weight_bytes(), from_folder(Precision::kInt8).weight_bytes());
}

// Of the experts' weights nothing is rounded; activations and attention are as in int8.
TEST_F(GptOssInFourBits, TheyStayClose) {
  const Safetensors e = load_safetensors(kMxfp4 + "/expected.safetensors");
  const std::vector<Token> text = tokens_of(e, "tokens_0");
  const at::Tensor reference = tensor_of(e, "logits_0");
  const auto off = [&](Precision precision) {  // of rows: rounding may choose another expert
    const at::Tensor error = logits_of(from_folder(precision), text) - reference;
    return error.square().mean(1).sqrt().median().item<double>();
  };
  const double size = reference.square().mean().sqrt().item<double>();
  EXPECT_LT(off(Precision::kInt4), 0.1 * size);
  EXPECT_LT(off(Precision::kInt4), 1.5 * off(Precision::kInt8));
}

TEST_F(GptOssInFourBits, AnyCutOfATextGivesTheSameBits) {
  std::vector<Token> text;
  for (Token i = 0; i < 60; ++i) text.push_back((i * i * 7 + 3) % 150);
  expect_any_cut_is_whole(from_folder(Precision::kInt4), text, {1, 3, 16, 60});
}

// Tensors by name, as files have them.
class GptOssExperts : public ::testing::Test {
 protected:
  using Shape = std::vector<std::int64_t>;
  void add(const std::string& name, DType dtype, Shape shape, std::vector<std::byte> bytes) {
    std::vector<std::byte>& kept = bytes_[name] = std::move(bytes);
    views_[name] = {.name = name, .dtype = dtype, .shape = std::move(shape), .bytes = kept};
  }
  void add_numbers(const std::string& name, Shape shape) {
    const at::Tensor x = numbers(shape);
    const auto* bytes = reinterpret_cast<const std::byte*>(x.const_data_ptr<float>());
    add(name, DType::kF32, std::move(shape), {bytes, bytes + x.nbytes()});
  }
  static at::Tensor numbers(const Shape& shape) {
    return at::arange(at::prod(at::tensor(shape)).item<std::int64_t>(), at::kFloat).view(shape);
  }
  std::optional<internal::OwnTensor> expert(const std::string& rest) const {
    return internal::gpt_oss_expert(kLayer + rest, [this](const std::string& name) {
      const auto found = views_.find(name);
      return found == views_.end() ? nullptr : &found->second;
    });
  }
  static at::Tensor values(const internal::OwnTensor& t) {
    at::Tensor out = at::empty(t.view.shape, at::kFloat);
    dequantize(t.view.dtype, t.view.bytes,
               {out.data_ptr<float>(), static_cast<std::size_t>(out.numel())});
    return out;
  }
  const std::string kLayer = "model.layers.7.mlp.experts.";
  std::map<std::string, std::vector<std::byte>> bytes_;
  std::map<std::string, TensorView> views_;
};

TEST_F(GptOssExperts, GatesAndUpsTakeTurnsInputsFirst) {
  add_numbers(kLayer + "gate_up_proj", {3, 130, 10});
  add_numbers(kLayer + "gate_up_proj_bias", {3, 10});
  add_numbers(kLayer + "down_proj", {3, 5, 130});
  add_numbers(kLayer + "down_proj_bias", {3, 130});
  const at::Tensor both = numbers({3, 130, 10}).select(0, 2).t();
  EXPECT_TRUE(at::equal(values(*expert("2.gate_proj.weight")), both.slice(0, 0, 10, 2)));
  EXPECT_TRUE(at::equal(values(*expert("2.up_proj.weight")), both.slice(0, 1, 10, 2)));
  EXPECT_TRUE(at::equal(values(*expert("1.down_proj.weight")), numbers({3, 5, 130})[1].t()));
  EXPECT_TRUE(at::equal(values(*expert("1.up_proj.bias")), numbers({3, 10})[1].slice(0, 1, 10, 2)));
  EXPECT_TRUE(at::equal(values(*expert("0.down_proj.bias")), numbers({3, 130})[0]));
}

TEST_F(GptOssExperts, OfMxfp4NeighboursShareAByte) {
  std::vector<std::byte> codes(4L * 2 * 16), scales(4 * 2);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(37 * i + 11);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(120 + i);
  add(kLayer + "gate_up_proj_blocks", DType::kU8, {1, 4, 2, 16}, codes);
  add(kLayer + "gate_up_proj_scales", DType::kU8, {1, 4, 2}, scales);
  const auto up = expert("0.up_proj.weight");
  ASSERT_TRUE(up);
  EXPECT_EQ(up->view.shape, (Shape{2, 64}));
  const at::Tensor got = values(*up);
  constexpr float kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t i = 0; i < 64; ++i) {
      const std::int64_t stored = 2 * (2 * row + 1) + i / 32;  // block, ups are the odd outputs
      const auto both =
          std::to_integer<unsigned>(codes[static_cast<std::size_t>(16 * stored + i % 32 / 2)]);
      const float expected = std::ldexp(kValues[i % 2 == 0 ? both & 15U : both >> 4U],
                                        120 + static_cast<int>(stored) - 127);
      ASSERT_EQ(got[row][i].item<float>(), expected) << row << ", " << i;
    }
  }
}

TEST_F(GptOssExperts, WhatIsNotThereOrHasAnotherShape) {
  EXPECT_FALSE(expert("0.up_proj.weight"));
  EXPECT_FALSE(expert("0.up_proj.bias"));
  EXPECT_FALSE(
      internal::gpt_oss_expert("model.norm.weight", [](const std::string&) { return nullptr; }));
  add(kLayer + "down_proj_blocks", DType::kU8, {1, 2, 1, 16}, std::vector<std::byte>(32));
  EXPECT_FALSE(expert("0.down_proj.weight")) << "without scales";
  add(kLayer + "down_proj_scales", DType::kU8, {1, 2, 2}, std::vector<std::byte>(4));
  EXPECT_THROW(expert("0.down_proj.weight"), FormatError);
  add(kLayer + "down_proj_scales", DType::kU8, {1, 2, 1}, std::vector<std::byte>(2));
  EXPECT_TRUE(expert("0.down_proj.weight"));
  EXPECT_THROW(expert("1.down_proj.weight"), FormatError) << "there is one";
  add_numbers(kLayer + "gate_up_proj", {3, 8});
  EXPECT_THROW(expert("0.up_proj.weight"), FormatError);
  add_numbers(kLayer + "gate_up_proj_bias", {3, 8, 1});
  EXPECT_THROW(expert("0.gate_proj.bias"), FormatError);
}

}  // namespace
}  // namespace forerun
