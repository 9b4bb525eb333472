#include "forerun/models/internal/expert_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "forerun/models/internal/dense_layers.h"

namespace forerun::internal {
namespace {

using nlohmann::json;

// The number of experts has two names: transformers 5 writes the second for all types.
const char* count_name(const Fields& f, const std::string& type) {
  if (type == kGlm4Moe && f.find("n_routed_experts") != nullptr) return "n_routed_experts";
  if (type == kErnie45Moe) return "moe_num_experts";
  return f.find("num_local_experts") != nullptr ? "num_local_experts" : "num_experts";
}

// Layers with one MLP in place of experts. Source: transformers' modeling_qwen2_moe.py.
void read_dense_layers(Fields& f, DecoderConfig& c) {
  const std::int64_t step = f.integer("decoder_sparse_step", 1);
  if (step < 1) return f.fail("'decoder_sparse_step' must be positive");
  std::vector<bool> dense(static_cast<std::size_t>(c.layers));
  for (std::size_t i = 0; i < dense.size(); ++i) {
    dense[i] = (static_cast<std::int64_t>(i) + 1) % step != 0;
  }
  if (const json* list = f.find("mlp_only_layers")) {
    if (!list->is_array()) return f.fail("'mlp_only_layers' does not list layers");
    for (const json& layer : *list) {
      if (!layer.is_number_integer()) return f.fail("'mlp_only_layers' does not list layers");
      const auto i = layer.get<std::int64_t>();
      if (i >= 0 && i < c.layers) dense[static_cast<std::size_t>(i)] = true;
    }
  }
  keep_dense_layers(std::move(dense), f, "intermediate_size", c);
}

// The width of several shared experts, which are one MLP.
// @param least  of their number
std::int64_t shared_width(Fields& f, const char* key, std::int64_t usual, std::int64_t least,
                          std::int64_t each) {
  const std::int64_t count = f.integer(key, usual);
  if (count < least || count > 1000) {
    f.fail(fmt::format("'{}' is {}, not from {} to 1000", key, count, least));
    return 0;
  }
  constexpr std::int64_t kMost = 1 << 24;
  return each > kMost ? each : each * count;  // the first is refused with the other sizes
}

// Source: transformers' configuration_glm4_moe.py.
void read_glm4_moe(Fields& f, DecoderConfig& c) {
  c.norm_topk_prob = f.flag("norm_topk_prob", true);
  c.intermediate = f.integer("moe_intermediate_size");
  c.shared_intermediate = shared_width(f, "n_shared_experts", 1, 1, c.intermediate);
  c.routing = {.sigmoid = true,
               .corrected = true,
               .scale = f.number("routed_scaling_factor", 1.0),
               .groups = f.integer("n_group", 1),
               .groups_used = f.integer("topk_group", 1)};
  c.head_norms = f.flag("use_qk_norm", false);
  c.qkv_biases = f.flag("attention_bias", false);
  c.unread_layers = f.integer("num_nextn_predict_layers", 1);
  if (c.unread_layers < 0 || c.unread_layers > 1000) {
    f.fail("'num_nextn_predict_layers' is out of range");
  }
  const std::int64_t first = f.integer("first_k_dense_replace", 1);
  if (first < 0 || first > c.layers) {
    return f.fail(fmt::format("'first_k_dense_replace' is {} of {} layers", first, c.layers));
  }
  keep_dense_layers(first_layers(first, c.layers), f, "intermediate_size", c);
}

// Source: transformers' configuration_ernie4_5_moe.py and modeling_ernie4_5_moe.py.
void read_ernie(Fields& f, DecoderConfig& c) {
  c.norm_topk_prob = c.routing.corrected = true;
  c.intermediate = f.integer("moe_intermediate_size");
  c.shared_intermediate = shared_width(f, "moe_num_shared_experts", 2, 0, c.intermediate);
  c.qkv_biases = f.flag("use_bias", false);
  if (!(f.number("moe_norm_min", 1e-12) <= 1e-6)) {
    f.fail("'moe_norm_min': a least sum of shares that is not tiny is not supported");
  }
  const std::int64_t first = f.integer("moe_layer_start_index", 1),
                     step = f.integer("moe_layer_interval", 1);
  std::int64_t last = f.integer("moe_layer_end_index", -1);
  if (last == -1) last = c.layers - 1;
  if (step < 1) return f.fail("'moe_layer_interval' must be positive");
  std::vector<bool> dense(static_cast<std::size_t>(c.layers));
  for (std::size_t layer = 0; layer < dense.size(); ++layer) {
    const auto i = static_cast<std::int64_t>(layer);
    dense[layer] = (i + 1) % step != 0 || i < first || i > last;
  }
  keep_dense_layers(std::move(dense), f, "intermediate_size", c);
}

// Source: transformers' configuration_lfm2_moe.py and modeling_lfm2_moe.py, which adds 1e-6 to the
// sum of shares.
void read_lfm2_moe(Fields& f, DecoderConfig& c) {
  c.norm_topk_prob = f.flag("norm_topk_prob", true);
  c.intermediate = f.integer("moe_intermediate_size");
  c.routing = {.sigmoid = true,
               .corrected = f.flag("use_expert_bias", true),
               .scale = f.number("routed_scaling_factor", 1.0)};
  const std::int64_t first = f.integer("num_dense_layers", 2);
  if (first < 0 || first > c.layers) {
    return f.fail(fmt::format("'num_dense_layers' is {} of {} layers", first, c.layers));
  }
  keep_dense_layers(first_layers(first, c.layers), f, "intermediate_size", c);
}

void describe_ernie(json& out, const DecoderConfig& c) {
  out["moe_num_experts"] = c.experts;
  out["moe_k"] = c.experts_used;
  out["moe_intermediate_size"] = c.intermediate;
  out["moe_num_shared_experts"] = c.shared_intermediate / c.intermediate;
  out["use_bias"] = c.qkv_biases;
  if (c.dense_intermediate > 0) out["intermediate_size"] = c.dense_intermediate;
  const auto first = std::find(c.dense.begin(), c.dense.end(), false);
  const auto last = std::find(c.dense.rbegin(), c.dense.rend(), false);
  out["moe_layer_start_index"] = first - c.dense.begin();
  if (first != c.dense.end()) {  // the next one, if any, is a step behind
    const auto next = std::find(first + 1, c.dense.end(), false);
    out["moe_layer_interval"] = next == c.dense.end() ? 1 : next - first;
  }
  out["moe_layer_end_index"] = c.layers - 1 - (last - c.dense.rbegin());
}

}  // namespace

bool has_experts(const std::string& type) {
  return type == kMixtral || type == kQwen3Moe || type == kGptOss || type == kQwen2Moe ||
         type == kOlmoe || type == kGlm4Moe || type == kErnie45Moe || is_granite_moe(type) ||
         type == kLfm2Moe || type == kQwen35Moe || type == kQwen3Next;
}

bool is_granite_moe(const std::string& type) {
  return type == kGraniteMoe || type == kGraniteMoeShared;
}

void read_gated_shared_expert(Fields& f, DecoderConfig& c) {
  c.shared_intermediate = f.integer("shared_expert_intermediate_size");
  c.shared_gate = true;
  if (c.shared_intermediate < 1) f.fail("'shared_expert_intermediate_size' must be positive");
}

void read_experts(Fields& f, const std::string& type, DecoderConfig& c) {
  const char* count = count_name(f, type);
  c.experts = f.integer(count);
  c.experts_used = f.integer(type == kErnie45Moe ? "moe_k" : "num_experts_per_tok");
  if (!f.error().empty()) return;
  if (c.experts < 1) return f.fail(fmt::format("'{}' must be positive", count));
  if (c.layers < 1 || c.layers > 1000) return;  // refused with the other sizes
  if (type == kGlm4Moe) return read_glm4_moe(f, c);
  if (type == kErnie45Moe) return read_ernie(f, c);
  if (type == kLfm2Moe) return read_lfm2_moe(f, c);
  const bool hybrid = type == kQwen35Moe || type == kQwen3Next;
  const bool qwen = type == kQwen2Moe || type == kQwen3Moe || hybrid;
  c.intermediate = f.integer(qwen ? "moe_intermediate_size" : "intermediate_size");
  const bool always = type == kMixtral || type == kGptOss || is_granite_moe(type);
  c.norm_topk_prob = always || type == kQwen35Moe || f.flag("norm_topk_prob", type == kQwen3Next);
  if (type == kGraniteMoeShared) {  // 0: none, as in its class
    c.shared_intermediate = f.integer("shared_intermediate_size", 0);
  }
  if (qwen && type != kQwen35Moe) read_dense_layers(f, c);
  if (hybrid) return read_gated_shared_expert(f, c);
  if (type == kQwen2Moe) {
    read_gated_shared_expert(f, c);
    c.qkv_biases = f.flag("qkv_bias", true);
  }
  if (type != kOlmoe) return;
  c.qkv_biases = f.flag("attention_bias", false);
  if (f.find("clip_qkv") != nullptr) {
    f.fail("'clip_qkv': queries, keys and values within bounds are not supported");
  }
}

// What they have besides the fields of families without experts.
void describe_experts(json& out, const DecoderConfig& c) {
  if (c.family == Family::kErnie45Moe) return describe_ernie(out, c);
  const bool mixtral = c.family == Family::kLlama, glm = c.family == Family::kGlm4Moe;
  const auto of_class = [&](const char* name, const char* type) {
    out["architectures"] = {name};
    out["model_type"] = type;
  };
  if (mixtral) of_class("MixtralForCausalLM", kMixtral);
  if (c.family == Family::kQwen3) of_class("Qwen3MoeForCausalLM", kQwen3Moe);
  if (c.family == Family::kQwen2) of_class("Qwen2MoeForCausalLM", kQwen2Moe);
  out[mixtral ? "num_local_experts" : glm ? "n_routed_experts" : "num_experts"] = c.experts;
  out["num_experts_per_tok"] = c.experts_used;
  if (mixtral) return;
  out["norm_topk_prob"] = c.norm_topk_prob;
  if (c.family == Family::kOlmoe) return;
  out["moe_intermediate_size"] = c.intermediate;
  if (c.dense_intermediate > 0) out["intermediate_size"] = c.dense_intermediate;
  if (c.family == Family::kQwen2) {
    out["shared_expert_intermediate_size"] = c.shared_intermediate;
    out["qkv_bias"] = c.qkv_biases;
  }
  if (!glm) {
    for (std::size_t i = 0; i < c.dense.size(); ++i) {
      if (c.dense[i]) out["mlp_only_layers"].push_back(i);
    }
    return;
  }
  out["n_shared_experts"] = c.shared_intermediate / c.intermediate;
  out["routed_scaling_factor"] = c.routing.scale;
  out["n_group"] = c.routing.groups;
  out["topk_group"] = c.routing.groups_used;
  out["use_qk_norm"] = c.head_norms;
  out["num_nextn_predict_layers"] = 0;
  out["first_k_dense_replace"] = std::count(c.dense.begin(), c.dense.end(), true);
}

}  // namespace forerun::internal
