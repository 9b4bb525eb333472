#include "forerun/models/frozen_decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

class FrozenDecoder : public ::testing::TestWithParam<std::string> {};

TEST_P(FrozenDecoder, IsACopyWhoseProductsLieSideBySide) {
  const std::string folder = kTiny + GetParam();
  DecoderLm source =
      load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kF32);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    DecoderLm copy = frozen_decoder(source, type);
    EXPECT_EQ(copy.precision, type == at::kFloat ? Precision::kF32 : Precision::kBF16);
    EXPECT_EQ(copy.head().is_same(copy.embedding), source.config.tied_head);
    const auto from = weights(source), to = weights(copy);
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const at::Tensor &a = *from[i].tensor, &b = *to[i].tensor;
      EXPECT_EQ(b.scalar_type(), from[i].shape.size() == 2 ? type : at::kFloat) << from[i].name;
      EXPECT_TRUE(at::equal(a.to(b.scalar_type()), b)) << from[i].name;
      EXPECT_FALSE(a.is_alias_of(b)) << from[i].name;
    }
    for (const TransformerBlock& b : copy.layers) {
      EXPECT_TRUE(b.q.weight.is_alias_of(b.v.weight));
      if (!b.experts.empty()) continue;
      EXPECT_TRUE(b.gate.weight.is_alias_of(b.up.weight));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FrozenDecoder,
                         ::testing::Values("llama", "llama_plain", "qwen2", "gemma3", "qwen2_moe",
                                           "glm4_moe"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace forerun
