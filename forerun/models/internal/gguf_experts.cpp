#include "forerun/models/internal/gguf_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "forerun/models/internal/dense_layers.h"

namespace forerun::internal {
namespace {

using Keys = GgufKeys;

void expect_sigmoids(Keys& k) {
  constexpr std::int64_t kSigmoid = 2;
  if (k.integer("expert_gating_func", kSigmoid) == kSigmoid) return;
  k.fail(k.full("expert_gating_func") +
         ": experts with another router than sigmoids are not "
         "supported");
}

void read_first_dense_layers(Keys& k, DecoderConfig& c) {
  const std::int64_t first = k.integer("leading_dense_block_count", 0);
  if (first < 0 || first > c.layers) {
    return k.fail(fmt::format("{} of {} layers have no experts", first, c.layers));
  }
  keep_dense_layers(first_layers(first, c.layers), k, "feed_forward_length", c);
}

// GLM-4.5's: sigmoids, a shared expert, first layers without experts and last ones that predict
// further tokens, which are left out.
void read_glm_experts(const Gguf& gguf, Keys& k, DecoderConfig& c) {
  const std::int64_t count = k.integer("expert_shared_count", 0);
  if (count < 1 || count > 1000) {
    return k.fail(
        fmt::format("{} is {}, not from 1 to 1000", k.full("expert_shared_count"), count));
  }
  constexpr std::int64_t kMost = 1 << 24;
  c.shared_intermediate = c.intermediate > kMost ? 0 : c.intermediate * count;
  expect_sigmoids(k);
  c.routing = {.sigmoid = true,
               .corrected = true,
               .scale = k.number("expert_weights_scale", 1.0),
               .groups = k.integer("expert_group_count", 1),
               .groups_used = k.integer("expert_group_used_count", 1)};
  c.head_norms = gguf.find("blk.0.attn_q_norm.weight") != nullptr;
  c.unread_layers = k.integer("nextn_predict_layers", 0);
  if (c.unread_layers < 0 || c.unread_layers >= c.layers || c.layers > 1000) {
    return k.fail(fmt::format("{} of {} layers predict further tokens", c.unread_layers, c.layers));
  }
  c.layers -= c.unread_layers;
  read_first_dense_layers(k, c);
}

// LFM2's: sigmoids with corrections, and first layers without experts. The converter leaves out the
// scale, which is 1 in published models.
void read_lfm2_experts(Keys& k, DecoderConfig& c) {
  expect_sigmoids(k);
  c.routing = {.sigmoid = true, .corrected = true, .scale = k.number("expert_weights_scale", 1.0)};
  if (k.integer("expert_shared_count", 0) != 0 || k.integer("expert_group_count", 1) > 1) {
    k.fail("shared experts and groups of experts are not supported");
  }
  if (c.layers < 1 || c.layers > 1000) return;  // refused with the other sizes
  read_first_dense_layers(k, c);
}

// Ernie 4.5's: layers of experts begin after some, and are every so many.
void read_ernie_experts(const Gguf& gguf, Keys& k, DecoderConfig& c) {
  c.shared_intermediate = k.integer("expert_shared_feed_forward_length", 0);
  const std::int64_t first = k.integer("leading_dense_block_count", 0);
  const std::int64_t step = k.integer("interleave_moe_layer_step", 1);
  if (step < 1) return k.fail(k.full("interleave_moe_layer_step") + " must be positive");
  if (c.layers < 1 || c.layers > 1000) return;  // refused with the other sizes
  std::vector<bool> dense(static_cast<std::size_t>(c.layers));
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = fmt::format("blk.{}.exp_probs_b.bias", i);
    c.routing.corrected = c.routing.corrected || gguf.find(layer) != nullptr;
    dense[static_cast<std::size_t>(i)] = i < first || (i + 1) % step != 0;
  }
  keep_dense_layers(std::move(dense), k, "feed_forward_length", c);
}

}  // namespace

// Source of the keys: gguf-py's constants.py in ggml-org/llama.cpp; of what files without some of
// them mean: its llama-model.cpp.
void read_experts(const Gguf& gguf, GgufKeys& k, DecoderConfig& c) {
  const bool qwen2 = c.family == Family::kQwen2 || c.family == Family::kQwen35;
  c.experts = k.integer("expert_count");
  c.experts_used = k.integer("expert_used_count");
  const bool own = k.has("expert_feed_forward_length");
  const std::int64_t width = k.integer(own ? "expert_feed_forward_length" : "feed_forward_length");
  c.intermediate = !own && qwen2 && c.experts_used > 0 ? width / c.experts_used : width;
  if (c.family == Family::kGlm4Moe) return read_glm_experts(gguf, k, c);
  if (c.family == Family::kLfm2) return read_lfm2_experts(k, c);
  const char* shared = "expert_shared_feed_forward_length";
  const bool ernie = c.family == Family::kErnie45Moe;
  if (ernie) read_ernie_experts(gguf, k, c);
  if (qwen2) {
    c.shared_intermediate = k.integer(k.has(shared) ? shared : "feed_forward_length");
    c.shared_gate = true;
    if (c.shared_intermediate < 1) k.fail(k.full(shared) + " must be positive");
  } else if (c.family == Family::kLlama) {  // Granite's; 0: none
    c.shared_intermediate = k.integer(shared, 0);
  }
  constexpr std::int64_t kSoftmax = 1;
  if (k.integer("expert_gating_func", kSoftmax) != kSoftmax ||
      k.number("expert_weights_scale", 1.0) != 1.0 ||
      (!qwen2 && !ernie && k.integer("expert_shared_count", 0) != 0) ||
      (!ernie && k.integer("leading_dense_block_count", 0) != 0) ||
      k.integer("expert_group_count", 1) > 1) {
    k.fail("experts with another router than softmax, shared or scaled ones are not supported");
  }
  if (k.number("attention.clamp_kqv", 0.0) != 0.0) {
    k.fail(k.full("attention.clamp_kqv") +
           ": queries, keys and values within bounds are not supported");
  }
}

}  // namespace forerun::internal
