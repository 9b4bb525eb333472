// The int8 engine on tiny random models of every family: close to float32, and bit for bit the same
// for any split of a text into passes.
#include "forerun/models/int8_decoder.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <map>
#include <tuple>

#include "forerun/models/build_decoder.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "forerun/tensor/cpu/handover.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "tests/support/any_cut.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

class Int8Family : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
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

TEST_P(Int8Family, StaysCloseToFloat32) {  // a wrong scale or a lost group would be far larger
  const at::Tensor out = whole(a_);
  EXPECT_LT((out - expected_).square().mean().sqrt().item<double>(),
            0.1 * expected_.square().mean().sqrt().item<double>());
}

TEST_P(Int8Family, GgufFileGivesTheSame) {
  if (!std::filesystem::exists(kTiny + GetParam() + "/model.gguf")) {
    GTEST_SKIP() << "this model has no GGUF file here";
  }
  const DecoderLm gguf =
      load_decoder(load_gguf(kTiny + GetParam() + "/model.gguf"), Precision::kInt8);
  KvCache cache = gguf.make_cache();
  const at::Tensor out = pass(gguf, cache, a_).clone();
  if (gguf.config.recurrent.tiled) {  // inputs of a product stand in another order, and round so
    EXPECT_LT((out - expected_).square().mean().sqrt().item<double>(),
              0.1 * expected_.square().mean().sqrt().item<double>());
    return;
  }
  EXPECT_LT(distance(out, whole(a_)), 1e-3);
}

TEST_P(Int8Family, OneByOneIsThePrefillBitForBit) {
  const at::Tensor all = whole(a_);
  KvCache cache = model_.make_cache();
  for (std::size_t i = 0; i < a_.size(); ++i) {
    const at::Tensor one = pass(model_, cache, std::span(a_).subspan(i, 1));
    ASSERT_TRUE(at::equal(one[0], all[static_cast<std::int64_t>(i)])) << "position " << i;
  }
}

TEST_P(Int8Family, StatesAreThoseOfFloat32AndTheSameBitForBitInAnyPass) {
  const Safetensors e = load_safetensors(kTiny + GetParam() + "/expected.safetensors");
  const at::Tensor whole_states = states_of(model_, a_, {1, 0}, {40});
  EXPECT_TRUE(at::equal(states_of(model_, a_, {1, 0}, {11, 1, 28}), whole_states));
  for (const int block : {0, 1}) {
    const at::Tensor reference = tensor_of(e, block == 0 ? "hidden_0_0" : "hidden_1_0");
    const at::Tensor error = whole_states.select(1, 1 - block) - reference;
    EXPECT_LT(error.square().mean().sqrt().item<double>(),
              0.1 * reference.square().mean().sqrt().item<double>());
  }
}

TEST_P(Int8Family, PackedSequencesAreTheSameBitForBit) {
  const at::Tensor all_a = whole(a_), all_b = whole(b_);
  KvCache cache_a = model_.make_cache(), cache_b = model_.make_cache();
  pass(model_, cache_a, std::span(a_).first(11));
  pass(model_, cache_b, std::span(b_).first(3));
  const std::vector<SequenceSpan> sequences = {
      {.cache = &cache_a, .tokens = std::span(a_).subspan(11, 17), .scored = 17},
      {.cache = &cache_b, .tokens = std::span(b_).subspan(3), .scored = 2}};
  const at::Tensor out = forward(model_, sequences);
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

TEST_P(Int8Family, AGreedyPassHasTheLogitsOfTheRowsThatItReaches) {
  KvCache cache = model_.make_cache();
  pass(model_, cache, std::span(a_).first(11));
  const std::vector<Token> first = {a_[11]};
  const auto best = [](const at::Tensor& row) { return row.argmax().item<std::int64_t>(); };
  std::vector<Token> path = first;  // and what the model says after it
  for (int i = 0; i < 2; ++i) {
    path.push_back(best(pass(model_, cache, path)[i]));
    cache.truncate(11);
  }
  const Token wrong = path[1] == 7 ? 8 : 7;
  const std::vector<Token> tokens = {path[0], wrong, path[1], path[2], path[2]};
  const std::vector<std::int32_t> parents = {-1, 0, 0, 1, 2};
  const auto run = [&](bool greedy, std::int64_t scored, std::int64_t unreached = 0) {
    const SequenceSpan span{.cache = &cache,
                            .tokens = tokens,
                            .scored = scored,
                            .parents = parents,
                            .greedy = greedy,
                            .unreached_logits = unreached};
    const at::Tensor out = forward(model_, {&span, 1}).clone();
    cache.truncate(11);
    return out;
  };
  const at::Tensor all = run(false, 5), some = run(true, 5);
  // Their rounding may make logits equal.
  const bool rounded = model_.config.logit_softcap > 0.0 || model_.config.logit_divisor != 1.0;
  for (const int row : {0, 2, 4}) EXPECT_TRUE(at::equal(some[row], all[row])) << row;
  for (const int row : {1, 3}) EXPECT_NE(some[row][0].isnan().item<bool>(), rounded) << row;
  // Of those all the same the first so many, not what an earlier pass has left in their memory.
  const std::vector<Token> others = {1, 2, 3, 4, 5};
  KvCache other = cache.share(11);
  for (int i = 0; i < 2; ++i) pass(model_, other, others);
  const at::Tensor more = run(true, 5, 100);
  EXPECT_TRUE(at::equal(more.slice(1, 1, 100), all.slice(1, 1, 100)));
  EXPECT_TRUE(at::equal(more.select(1, 0).isnan(), some.select(1, 0).isnan()));
  // Rows that follow none whose logits are asked for are needed whatever these are.
  const at::Tensor last = run(true, 2);
  EXPECT_TRUE(at::equal(last, all.narrow(0, 3, 2)));
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

TEST_P(Int8Family, NorDoesHowFarTheThreadsAre) {
  if (!kernels().streams) GTEST_SKIP() << "this processor has no stores past the caches here";
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::vector<at::Tensor> logits;
  for (const bool far : {false, true}) {
    set_threads_are_far(far);
    logits.push_back(whole(a_));
  }
  set_threads_are_far({});
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(logits[0], logits[1]));
}

INSTANTIATE_TEST_SUITE_P(Tiny, Int8Family,
                         ::testing::Values("llama", "llama_plain", "qwen2", "qwen3", "gemma3",
                                           "gemma3_softcap", "mistral", "qwen3_moe", "mixtral",
                                           "smollm3", "gemma2", "phi3", "phi3_window", "granite",
                                           "olmo2", "olmo3", "glm4", "gpt_oss", "gpt_oss_mxfp4",
                                           "qwen2_moe", "olmoe", "glm4_moe", "glm4_moe_groups",
                                           "granite_moe", "ernie", "lfm2", "qwen3_5", "lfm2_moe",
                                           "qwen3_next", "qwen3_next_experts", "qwen3_5_moe"),
                         [](const auto& family) { return family.param; });

// Awkward sizes: more than one task of gates, chunk of keys and block of rows, tails in every
// direction, biases everywhere, windows and caps.
class OddModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    config_.vocab = 333;
    config_.hidden = 200;
    config_.layers = 3;
    config_.heads = 10;
    config_.kv_heads = 2;
    config_.head_dim = 24;
    config_.intermediate = 250;
    config_.context = 700;
    config_.query_scale = 0.2;
    config_.attention_softcap = 15.0;
    config_.logit_softcap = 8.0;
    config_.window = 300;
    config_.sliding = {true, false, true};
    const std::int64_t h = 200, q = 240, kv = 48, mlp = 250;
    add("model.embed_tokens.weight", {333, h}, 1.0);
    add("lm_head.weight", {333, h}, 0.1);
    add("model.norm.weight", {h}, 1.0);
    for (int i = 0; i < 3; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      for (const auto& [name, rows, cols] :
           {std::tuple("self_attn.q_proj", q, h), std::tuple("self_attn.k_proj", kv, h),
            std::tuple("self_attn.v_proj", kv, h), std::tuple("self_attn.o_proj", h, q),
            std::tuple("mlp.gate_proj", mlp, h), std::tuple("mlp.up_proj", mlp, h),
            std::tuple("mlp.down_proj", h, mlp)}) {
        add(layer + name + ".weight", {rows, cols}, 0.08);
        add(layer + name + ".bias", {rows}, 0.3);
      }
      add(layer + "input_layernorm.weight", {h}, 1.0);
      add(layer + "post_attention_layernorm.weight", {h}, 1.0);
    }
    for (std::size_t i = 0; i < 600; ++i) text_.push_back(static_cast<Token>(i * i * 7 % 333));
  }
  void add(const std::string& name, std::vector<std::int64_t> shape, double scale) {
    at::Tensor& t = tensors_.emplace_back(at::randn(shape, generator_) * scale);
    views_[name] = {.name = name,
                    .dtype = DType::kF32,
                    .shape = std::move(shape),
                    .bytes = std::as_bytes(
                        std::span(t.data_ptr<float>(), static_cast<std::size_t>(t.numel())))};
  }
  DecoderLm build(Precision precision) const {
    const FindTensor find = [this](const std::string& name) -> const TensorView* {
      const auto found = views_.find(name);
      return found == views_.end() ? nullptr : &found->second;
    };
    return build_decoder(config_, {Naming::kHuggingFace, find}, precision);
  }

  const c10::InferenceMode no_autograd_;
  at::Generator generator_ = at::detail::createCPUGenerator(5);
  DecoderConfig config_;
  std::deque<at::Tensor> tensors_;
  std::map<std::string, TensorView> views_;
  std::vector<Token> text_;
};

TEST_F(OddModel, StaysCloseToFloat32) {
  const DecoderLm int8 = build(Precision::kInt8), f32 = build(Precision::kF32);
  KvCache a = int8.make_cache(), b = f32.make_cache();
  const at::Tensor x = pass(int8, a, text_), y = pass(f32, b, text_);
  EXPECT_LT((x - y).square().mean().sqrt().item<double>(),
            0.05 * y.square().mean().sqrt().item<double>());
}

TEST_F(OddModel, AnyCutOfTheTextGivesTheSameBitForBit) {
  expect_any_cut_is_whole(build(Precision::kInt8), text_, {1, 7, 64, 130});
}

// Results use recycled memory: one that is still held must not be overwritten.
TEST_F(OddModel, HeldLogitsStay) {
  const DecoderLm model = build(Precision::kInt8);
  KvCache cache = model.make_cache();
  const at::Tensor first = pass(model, cache, std::span(text_).first(5));
  const at::Tensor copy = first.clone();
  for (std::size_t i = 1; i < 7; ++i) pass(model, cache, std::span(text_).subspan(5 * i, 5));
  EXPECT_TRUE(at::equal(first, copy));
}

}  // namespace
}  // namespace forerun
