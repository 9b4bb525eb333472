// Parity with transformers on tiny random models of every family (tests/data/tiny, made by
// tools/make_tiny_models.py), and of every kind of pass with every other.
#include "forerun/models/decoder_lm.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

class Family : public ::testing::TestWithParam<std::string> {
 protected:
  DecoderLm hugging_face() const {
    const std::string folder = kTiny + GetParam();
    return load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kF32);
  }
  DecoderLm gguf() const {
    return load_decoder(load_gguf(kTiny + GetParam() + "/model.gguf"), Precision::kF32);
  }
  bool has_gguf() const { return GetParam() != "mistral" && GetParam() != "qwen3_next"; }
  Safetensors expected() const {
    return load_safetensors(kTiny + GetParam() + "/expected.safetensors");
  }

  const c10::InferenceMode no_autograd_;
};

TEST_P(Family, PrefillMatchesTransformers) {
  const DecoderLm model = hugging_face();
  const Safetensors e = expected();
  for (const char* i : {"0", "1"}) {
    KvCache cache = model.make_cache();
    const auto tokens = tokens_of(e, std::string("tokens_") + i);
    EXPECT_LT(distance(pass(model, cache, tokens), tensor_of(e, std::string("logits_") + i)), 1e-4);
  }
}

TEST_P(Family, GgufFileMatchesTransformers) {
  if (!has_gguf()) GTEST_SKIP() << "llama.cpp's files know no such layers";
  const DecoderLm model = gguf();
  const Safetensors e = expected();
  KvCache cache = model.make_cache();
  EXPECT_LT(distance(pass(model, cache, tokens_of(e, "tokens_0")), tensor_of(e, "logits_0")), 1e-4);
}

TEST_P(Family, OneByOneMatchesTransformers) {
  const DecoderLm model = hugging_face();
  const Safetensors e = expected();
  const auto tokens = tokens_of(e, "tokens_0");
  const at::Tensor logits = tensor_of(e, "logits_0");
  KvCache cache = model.make_cache();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const at::Tensor one = pass(model, cache, std::span(tokens).subspan(i, 1));
    EXPECT_LT(distance(one[0], logits[static_cast<std::int64_t>(i)]), 1e-4) << "position " << i;
  }
}

// An off-by-one in the block would cost a few percent of acceptance and would show nowhere else.
TEST_P(Family, StatesOfBlocksMatchTransformers) {
  const DecoderLm model = hugging_face();
  const Safetensors e = expected();
  const auto tokens = tokens_of(e, "tokens_0");
  const auto states = states_of(model, tokens, {1, 0}, {11, 1, 28});
  for (const int block : {0, 1}) {
    const at::Tensor expected = tensor_of(e, block == 0 ? "hidden_0_0" : "hidden_1_0");
    // Of states above 33, as gpt-oss's, 25 units in the last place: processors order sums
    // otherwise.
    const double rounding = 3e-6 * expected.abs().max().item<double>();
    EXPECT_LT(distance(states.select(1, 1 - block), expected), std::max(1e-4, rounding));
  }
}

// Sequences of different lengths, at different positions, in one packed pass.
TEST_P(Family, PackedSequencesMatchTransformers) {
  const DecoderLm model = hugging_face();
  const Safetensors e = expected();
  const auto a = tokens_of(e, "tokens_0"), b = tokens_of(e, "tokens_1");
  KvCache cache_a = model.make_cache(), cache_b = model.make_cache();
  pass(model, cache_a, std::span(a).first(11));
  pass(model, cache_b, std::span(b).first(3));
  const std::vector<SequenceSpan> sequences = {
      {.cache = &cache_a, .tokens = std::span(a).subspan(11, 17), .scored = 17},
      {.cache = &cache_b, .tokens = std::span(b).subspan(3), .scored = 2}};
  const at::Tensor out = forward(model, sequences);
  EXPECT_LT(distance(out.narrow(0, 0, 17), tensor_of(e, "logits_0").narrow(0, 11, 17)), 1e-4);
  const auto n = static_cast<std::int64_t>(b.size());
  EXPECT_LT(distance(out.narrow(0, 17, 2), tensor_of(e, "logits_1").narrow(0, n - 2, 2)), 1e-4);
}

// Remains of a rejected draft must have no effect: not in keys, not in values, not in positions.
TEST_P(Family, TruncationDropsRejectedTokens) {
  const DecoderLm model = hugging_face();
  const Safetensors e = expected();
  const auto tokens = tokens_of(e, "tokens_0");
  const at::Tensor logits = tensor_of(e, "logits_0");
  KvCache cache = model.make_cache();
  const std::vector<Token> wrong = {5, 9, 14, 3, 77, 21, 8};
  for (std::size_t i = 0; i < tokens.size(); i += 5) {
    pass(model, cache, wrong);
    cache.truncate(static_cast<std::int64_t>(i));
    const std::size_t n = std::min<std::size_t>(5, tokens.size() - i);
    const at::Tensor out = pass(model, cache, std::span(tokens).subspan(i, n));
    EXPECT_LT(distance(out, logits.narrow(0, static_cast<std::int64_t>(i), out.size(0))), 1e-4);
  }
}

TEST_P(Family, KeepingRejectedTokensIsDetected) {  // the control of the test above
  const DecoderLm model = hugging_face();
  const Safetensors e = expected();
  const auto tokens = tokens_of(e, "tokens_0");
  KvCache cache = model.make_cache();
  const std::vector<Token> wrong = {5, 9, 14};
  pass(model, cache, wrong);
  const at::Tensor out = pass(model, cache, std::span(tokens).first(4));
  EXPECT_GT(distance(out, tensor_of(e, "logits_0").narrow(0, 0, 4)), 1e-2);
}

TEST_P(Family, RefusesTokensOutsideTheVocabularyAndTheContext) {
  const DecoderLm model = hugging_face();
  KvCache cache = model.make_cache();
  const std::vector<Token> outside = {static_cast<Token>(model.config.vocab)};
  EXPECT_THROW(pass(model, cache, outside), std::invalid_argument);
  const std::vector<Token> negative = {-1};
  EXPECT_THROW(pass(model, cache, negative), std::invalid_argument);
  const std::vector<Token> long_text(static_cast<std::size_t>(model.config.context) + 1, 3);
  EXPECT_THROW(pass(model, cache, long_text), std::invalid_argument);
}

TEST_P(Family, Bf16StaysClose) {  // a wrong cast or a lost scale is far larger than bf16's rounding
  const std::string folder = kTiny + GetParam();
  const DecoderLm model =
      load_decoder(load_hf_config(folder), load_safetensors(folder), folder, Precision::kBF16);
  const Safetensors e = expected();
  KvCache cache = model.make_cache();
  const at::Tensor reference = tensor_of(e, "logits_0");
  const at::Tensor out = pass(model, cache, tokens_of(e, "tokens_0"));
  // Of rows: where two experts are as likely rounding may choose the other.
  const at::Tensor rows = (out - reference).square().mean(1).sqrt();
  const at::Tensor typical = model.config.experts > 0 ? rows.median() : rows.square().mean().sqrt();
  EXPECT_LT(typical.item<double>(), 0.06 * reference.square().mean().sqrt().item<double>());
}

INSTANTIATE_TEST_SUITE_P(Tiny, Family,
                         ::testing::Values("llama", "llama_plain", "qwen2", "qwen3", "gemma3",
                                           "gemma3_softcap", "mistral", "mistral_yarn",
                                           "gemma3_pictures", "qwen3_moe", "mixtral", "smollm3",
                                           "gemma2", "phi3", "phi3_window", "granite", "olmo2",
                                           "olmo3", "glm4", "gpt_oss", "gpt_oss_mxfp4", "qwen2_moe",
                                           "olmoe", "glm4_moe", "glm4_moe_groups", "granite_moe",
                                           "ernie", "lfm2", "qwen3_5", "lfm2_moe", "qwen3_next",
                                           "qwen3_next_experts", "qwen3_5_moe"),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace forerun
