// GGUF files of single families in int4: matrices that the file has in 4 bits stay so, others are
// int8. Close to float32, and bit for bit the same in any company.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "forerun/models/int8_decoder.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

class Int4Family : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    const std::string folder = kTiny + GetParam();
    model_ = load_decoder(load_gguf(folder + "/model.gguf"), Precision::kInt4);
    const Safetensors e = load_safetensors(folder + "/expected.safetensors");
    text_ = tokens_of(e, "tokens_0");
    expected_ = tensor_of(e, "logits_0");
    KvCache cache = model_.make_cache();
    whole_ = pass(model_, cache, text_).clone();
  }

  const c10::InferenceMode no_autograd_;
  DecoderLm model_;
  std::vector<Token> text_;
  at::Tensor expected_, whole_;
};

TEST_P(Int4Family, StaysCloseToFloat32) {
  const auto size = [](const at::Tensor& x) { return x.square().mean().sqrt().item<double>(); };
  EXPECT_LT(size(whole_ - expected_), 0.1 * size(expected_));
}

TEST_P(Int4Family, AnyCutIsThePrefillBitForBit) {
  for (const std::size_t step : {1U, 3U, 16U}) {
    KvCache cache = model_.make_cache();
    for (std::size_t i = 0; i < text_.size(); i += step) {
      const auto some = std::span(text_).subspan(i, std::min(step, text_.size() - i));
      const auto first = static_cast<std::int64_t>(i);
      const auto count = static_cast<std::int64_t>(some.size());
      ASSERT_TRUE(at::equal(pass(model_, cache, some), whole_.narrow(0, first, count)))
          << "position " << i << " by " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, Int4Family,
                         ::testing::Values("smollm3", "gemma2", "phi3", "phi3_window", "granite",
                                           "olmo2", "olmo3", "glm4", "qwen2_moe", "olmoe",
                                           "glm4_moe", "glm4_moe_groups", "granite_moe", "ernie",
                                           "lfm2", "qwen3_5", "lfm2_moe", "qwen3_next_experts",
                                           "qwen3_5_moe"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace forerun
