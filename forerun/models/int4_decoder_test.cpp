// Decoders whose layers a GGUF file stores in 4 bits: close to float32, closer than int8, and bit
// for bit the same in any company.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <tuple>

#include "forerun/base/result.h"
#include "forerun/models/build_decoder.h"
#include "forerun/models/int8_decoder.h"
#include "forerun/tensor/cpu/cpu_features.h"
#include "tests/support/any_cut.h"
#include "tests/support/random_adapters.h"
#include "tests/support/tiny_models.h"

namespace forerun {
namespace {

// Stored numbers of a matrix near the given ones, 32 at a time.
std::vector<std::byte> stored(const at::Tensor& w, DType dtype) {
  std::vector<std::byte> out;
  const auto put = [&](auto value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof value);
  };
  const float* x = w.const_data_ptr<float>();
  if (dtype == DType::kF32) {
    for (std::int64_t i = 0; i < w.numel(); ++i) put(x[i]);
    return out;
  }
  for (std::int64_t first = 0; first < w.numel(); first += 32) {
    const auto [low, high] = std::minmax_element(x + first, x + first + 32);
    const bool around_zero = dtype == DType::kQ4_0;
    const float most = std::max(-*low, *high);
    const c10::Half d(around_zero ? most / 7.0F : (*high - *low) / 15.0F), m(*low);
    put(d.x);
    if (!around_zero) put(m.x);
    const float base = around_zero ? -8.0F * d : static_cast<float>(m);
    const auto level = [&](std::int64_t i) {
      return static_cast<int>(std::clamp(std::round((x[first + i] - base) / d), 0.0F, 15.0F));
    };
    for (int i = 0; i < 16; ++i) put(static_cast<std::uint8_t>(level(i) | level(16 + i) << 4));
  }
  return out;
}

class Int4Model : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_features().int8()) GTEST_SKIP() << "this processor has no AVX2";
    config_.family = Family::kLlama;  // rows of queries and keys in another order
    config_.vocab = 333;
    config_.hidden = 192;
    config_.layers = 3;
    config_.heads = 8;
    config_.kv_heads = 2;
    config_.head_dim = 24;
    config_.intermediate = 224;
    config_.context = 700;
    config_.query_scale = 0.2;
    config_.sliding.assign(3, false);
    const std::int64_t h = 192, q = 192, kv = 48, mlp = 224;
    add("token_embd.weight", {333, h}, 1.0, DType::kF32);
    add("output.weight", {333, h}, 0.1, DType::kF32);
    add("output_norm.weight", {h}, 1.0, DType::kF32);
    for (int i = 0; i < 3; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      // Of the second block the values are not in 4 bits: its queries, keys and values are int8.
      const DType type = i == 2 ? DType::kQ4_0 : DType::kQ4_1;
      for (const auto& [name, rows, cols] :
           {std::tuple("attn_q", q, h), std::tuple("attn_k", kv, h), std::tuple("attn_v", kv, h),
            std::tuple("attn_output", h, q), std::tuple("ffn_gate", mlp, h),
            std::tuple("ffn_up", mlp, h), std::tuple("ffn_down", h, mlp)}) {
        const bool wide = i == 1 && std::string(name) == "attn_v";
        add(layer + name + ".weight", {rows, cols}, 0.08, wide ? DType::kF32 : type);
        add(layer + name + ".bias", {rows}, 0.3, DType::kF32);
      }
      add(layer + "attn_norm.weight", {h}, 1.0, DType::kF32);
      add(layer + "ffn_norm.weight", {h}, 1.0, DType::kF32);
    }
    for (std::size_t i = 0; i < 300; ++i) text_.push_back(static_cast<Token>(i * i * 7 % 333));
  }
  void TearDown() override { at::set_num_threads(1); }
  void add(const std::string& name, std::vector<std::int64_t> shape, double scale, DType dtype) {
    bytes_.push_back(stored(at::randn(shape, generator_) * scale, dtype));
    views_[name] = {
        .name = name, .dtype = dtype, .shape = std::move(shape), .bytes = bytes_.back()};
  }
  std::vector<std::byte>& bytes_of(const std::string& name) {
    return *std::find_if(bytes_.begin(), bytes_.end(), [&](const std::vector<std::byte>& b) {
      return b.data() == views_.at(name).bytes.data();
    });
  }
  DecoderLm build(Precision precision) const {
    const FindTensor find = [this](const std::string& name) -> const TensorView* {
      const auto found = views_.find(name);
      return found == views_.end() ? nullptr : &found->second;
    };
    return build_decoder(config_, {Naming::kGguf, find, std::make_shared<int>(0)}, precision);
  }
  at::Tensor whole(const DecoderLm& model) const {
    KvCache cache = model.make_cache();
    return pass(model, cache, text_).clone();
  }

  const c10::InferenceMode no_autograd_;
  at::Generator generator_ = at::detail::createCPUGenerator(5);
  DecoderConfig config_;
  std::deque<std::vector<std::byte>> bytes_;
  std::map<std::string, TensorView> views_;
  std::vector<Token> text_;
};

double size(const at::Tensor& x) { return x.square().mean().sqrt().item<double>(); }

TEST_F(Int4Model, StaysCloserToFloat32ThanInt8) {
  const at::Tensor exact = whole(build(Precision::kF32));
  const double four = size(whole(build(Precision::kInt4)) - exact),
               eight = size(whole(build(Precision::kInt8)) - exact);
  EXPECT_LT(four, 0.02 * size(exact));
  EXPECT_LT(four, eight);
}

TEST_F(Int4Model, ReadsFiveBitsOfAWeightThatTheFileStoresInFour) {
  const std::int64_t eight = build(Precision::kInt8).weight_bytes(),
                     four = build(Precision::kInt4).weight_bytes();
  // Outputs of a layer: 288 -> 288 (whole panels of 48), 192, 576 of gates and ups, 192.
  const std::int64_t qkv = 288 * 192, others = 192 * 192 + 576 * 192 + 192 * 224;
  EXPECT_EQ(eight - four, (2 * qkv + 3 * others) * 3 / 8);
}

TEST_F(Int4Model, AnyCutOfTheTextGivesTheSameBitForBit) {
  expect_any_cut_is_whole(build(Precision::kInt4), text_, {1, 6, 130});
}

TEST_F(Int4Model, RowsOfATreeAreThoseOfChains) {
  const DecoderLm model = build(Precision::kInt4);
  KvCache cache = model.make_cache();
  pass(model, cache, std::span(text_).first(70));
  const std::vector<Token> tokens = {5, 9, 14, 3, 77};
  const std::vector<std::int32_t> parents = {-1, 0, 0, 2, -1};
  const SequenceSpan span{.cache = &cache, .tokens = tokens, .scored = 5, .parents = parents};
  const at::Tensor tree = forward(model, {&span, 1}).clone();
  cache.truncate(70);
  const std::vector<std::vector<Token>> paths = {{5}, {5, 9}, {5, 14}, {5, 14, 3}, {77}};
  for (std::size_t row = 0; row < paths.size(); ++row) {
    const at::Tensor chain = pass(model, cache, paths[row]);
    EXPECT_TRUE(at::equal(chain[chain.size(0) - 1], tree[static_cast<std::int64_t>(row)])) << row;
    cache.truncate(70);
  }
}

// The rows of adapters are rotated for them, in passes of one sequence and of two; the others stay
// as they were.
TEST_F(Int4Model, RowsMeetAdapters) {
  const DecoderLm f32 = build(Precision::kF32), int4 = build(Precision::kInt4);
  const GatedLora whole = random_adapters(config_, "t", 4);
  const std::vector<std::int32_t> masks = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto run = [&](const DecoderLm& model, const GatedLora* lora, std::size_t sequences) {
    std::vector<KvCache> caches;
    std::vector<SequenceSpan> spans;
    for (std::size_t i = 0; i < sequences; ++i) {
      caches.push_back(model.make_cache());
      pass(model, caches.back(), std::span(text_).first(70 + 30 * i));
    }
    for (std::size_t i = 0; i < sequences; ++i) {
      spans.push_back(
          {.cache = &caches[i], .tokens = std::span(text_).subspan(70 + 30 * i, 12), .scored = 12});
      if (lora == nullptr) continue;
      spans.back().adapters = lora;
      spans.back().masks = masks;
    }
    return forward(model, spans).to(at::kFloat).clone();
  };
  const GatedLora exact = in_precision(whole, Precision::kF32),
                  packed = in_precision(whole, Precision::kInt4);
  const at::Tensor with = run(int4, &packed, 2), without = run(int4, nullptr, 2),
                   x = run(f32, &exact, 2);
  EXPECT_LT(size(with - x), 0.03 * size(x));
  EXPECT_GT(size((with - without).narrow(0, 2, 10)), 0.1 * size(x));
  EXPECT_TRUE(at::equal(with.narrow(0, 0, 2), without.narrow(0, 0, 2)));
  EXPECT_TRUE(at::equal(run(int4, &packed, 1), with.narrow(0, 0, 12)));
  at::set_num_threads(3);
  for (int again = 0; again < 5; ++again) {
    EXPECT_TRUE(at::equal(run(int4, &packed, 2), with)) << again;
  }
}

// Scales that float32 holds and float16 does not: that matrix is in int8.
TEST_F(Int4Model, LargeScalesAreNotLost) {
  std::vector<std::byte>& q4_0 = bytes_of("blk.2.ffn_up.weight");
  const c10::Half large(9000.0F);  // times -8 it is more than 65504
  for (std::size_t at = 0; at < q4_0.size(); at += 18) std::memcpy(&q4_0[at], &large.x, 2);
  const at::Tensor exact = whole(build(Precision::kF32)), four = whole(build(Precision::kInt4));
  EXPECT_TRUE(four.isfinite().all().item<bool>());
  EXPECT_LT(size(four - exact), 0.05 * size(exact));
}

TEST_F(Int4Model, NorAreThoseThatAreNoNumbers) {
  const c10::Half endless(std::numeric_limits<float>::infinity());
  std::memcpy(&bytes_of("blk.0.attn_k.weight")[20], &endless.x, 2);
  EXPECT_FALSE(whole(build(Precision::kInt4)).isfinite().all().item<bool>());
}

TEST_F(Int4Model, WithoutMatricesInFourBitsItIsInt8) {
  for (auto& [name, view] : views_) {
    if (view.dtype == DType::kF32) continue;
    at::Tensor w = at::randn(view.shape, generator_) * 0.08;
    bytes_.push_back(stored(w, DType::kF32));
    view.dtype = DType::kF32;
    view.bytes = bytes_.back();
  }
  EXPECT_TRUE(at::equal(whole(build(Precision::kInt4)), whole(build(Precision::kInt8))));
}

}  // namespace
}  // namespace forerun
