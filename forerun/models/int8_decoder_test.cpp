// The int8 engine on tiny random models of every family: close to float32, and bit for bit the same
// however a text is cut into passes.
#include "forerun/models/int8_decoder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

class Int8Family : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX-512 VNNI";
    const std::string folder = kTiny + GetParam();
    model_ =
        load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kInt8);
    const Safetensors e = load_safetensors(folder + "/expected.safetensors");
    a_ = tokens_of(e, "tokens_0");
    b_ = tokens_of(e, "tokens_1");
    expected_ = tensor_of(e, "logits_0");
  }
  at::Tensor whole(const std::vector<Token>& tokens) const {
    KvCache cache = model_.make_cache();
    return pass(model_, cache, tokens);
  }

  const c10::InferenceMode no_autograd_;
  DecoderLm model_;
  std::vector<Token> a_, b_;
  at::Tensor expected_;
};

TEST_P(Int8Family, StaysCloseToFloat32) {  // a wrong scale or a lost group is far larger
  const at::Tensor out = whole(a_);
  EXPECT_LT((out - expected_).square().mean().sqrt().item<double>(),
            0.1 * expected_.square().mean().sqrt().item<double>());
}

TEST_P(Int8Family, GgufFileGivesTheSame) {
  const DecoderLm gguf =
      load_decoder(load_gguf(kTiny + GetParam() + "/model.gguf"), Precision::kInt8);
  KvCache cache = gguf.make_cache();
  EXPECT_LT(distance(pass(gguf, cache, a_), whole(a_)), 1e-3);
}

TEST_P(Int8Family, OneByOneIsThePrefillBitForBit) {
  const at::Tensor all = whole(a_);
  KvCache cache = model_.make_cache();
  for (std::size_t i = 0; i < a_.size(); ++i) {
    const at::Tensor one = pass(model_, cache, std::span(a_).subspan(i, 1));
    ASSERT_TRUE(at::equal(one[0], all[static_cast<std::int64_t>(i)])) << "position " << i;
  }
}

TEST_P(Int8Family, PackedLanesAreTheSameBitForBit) {
  const at::Tensor all_a = whole(a_), all_b = whole(b_);
  KvCache cache_a = model_.make_cache(), cache_b = model_.make_cache();
  pass(model_, cache_a, std::span(a_).first(11));
  pass(model_, cache_b, std::span(b_).first(3));
  const std::vector<LaneSpan> lanes = {
      {.cache = &cache_a, .tokens = std::span(a_).subspan(11, 17), .scored = 17},
      {.cache = &cache_b, .tokens = std::span(b_).subspan(3), .scored = 2}};
  const at::Tensor out = forward(model_, lanes);
  EXPECT_TRUE(at::equal(out.narrow(0, 0, 17), all_a.narrow(0, 11, 17)));
  EXPECT_TRUE(at::equal(out.narrow(0, 17, 2),
                        all_b.narrow(0, static_cast<std::int64_t>(b_.size()) - 2, 2)));
}

TEST_P(Int8Family, RejectedTokensLeaveNoTrace) {
  const at::Tensor all = whole(a_);
  KvCache cache = model_.make_cache();
  const std::vector<Token> wrong = {5, 9, 14, 3, 77, 21, 8};
  for (std::size_t i = 0; i < a_.size(); i += 5) {
    pass(model_, cache, wrong);
    cache.truncate(static_cast<std::int64_t>(i));
    const std::size_t n = std::min<std::size_t>(5, a_.size() - i);
    const at::Tensor out = pass(model_, cache, std::span(a_).subspan(i, n));
    EXPECT_TRUE(at::equal(out, all.narrow(0, static_cast<std::int64_t>(i), out.size(0))));
  }
}

TEST_P(Int8Family, ThreadsDoNotMatter) {
  const int before = at::get_num_threads();
  const at::Tensor all = whole(a_);
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(whole(a_), all)) << threads << " threads";
  }
  at::set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Tiny, Int8Family,
                         testing::Values("llama", "llama_plain", "qwen2", "qwen3", "gemma3",
                                         "gemma3_softcap"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace forerun
