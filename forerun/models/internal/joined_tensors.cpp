#include "forerun/models/internal/joined_tensors.h"

#include <string_view>
#include <utility>

namespace forerun::internal {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// The first of the names that is found, in place of ours.
template <std::size_t n>
std::string renamed(const std::string& name, const Names (&names)[n]) {
  for (const auto& [ours, theirs] : names) {
    const std::size_t at = name.find(ours);
    if (at != std::string::npos) return std::string(name).replace(at, ours.size(), theirs);
  }
  return name;
}

// Rows of a tensor that has gates and then ups, each so many; none for other weights.
PartOfTensor gates_and_ups(std::int64_t width, const std::string& name) {
  if (name.find(".gate_proj.") != std::string::npos) return {0, width, 2 * width};
  if (name.find(".up_proj.") != std::string::npos) return {width, width, 2 * width};
  return {};
}

}  // namespace

std::string joined_name(const DecoderConfig& c, const std::string& name) {
  constexpr Names kQkv[] = {
      {".q_proj.", ".qkv_proj."}, {".k_proj.", ".qkv_proj."}, {".v_proj.", ".qkv_proj."}};
  constexpr Names kGateUp[] = {{".gate_proj.", ".gate_up_proj."}, {".up_proj.", ".gate_up_proj."}};
  const std::string out = c.fused_qkv() ? renamed(name, kQkv) : name;
  return c.fused_gate_up() ? renamed(out, kGateUp) : out;
}

std::string fused_name(const DecoderConfig& c, const std::string& name) {
  constexpr Names kNorms[] = {{".post_attention_layernorm.", ".post_self_attn_layernorm."},
                              {".pre_feedforward_layernorm.", ".post_attention_layernorm."},
                              {".post_feedforward_layernorm.", ".post_mlp_layernorm."}};
  const std::string out = joined_name(c, name);
  return c.post_norms ? renamed(out, kNorms) : out;
}

PartOfTensor part_of_tensor(const DecoderConfig& c, const std::string& name) {
  const std::int64_t q = c.query_width(), kv = c.kv_width();
  const auto is = [&](const char* kind) { return name.find(kind) != std::string::npos; };
  if (c.fused_qkv()) {
    if (is(".q_proj.")) return {0, q, q + 2 * kv};
    if (is(".k_proj.")) return {q, kv, q + 2 * kv};
    if (is(".v_proj.")) return {q + kv, kv, q + 2 * kv};
  }
  return c.fused_gate_up() ? gates_and_ups(c.intermediate, name) : PartOfTensor{};
}

std::string granite_moe_name(const std::string& name) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  constexpr Names kRest[] = {{".mlp.gate.", ".block_sparse_moe.router.layer."},
                             {".mlp.shared_experts.gate_proj.", ".shared_mlp.input_linear."},
                             {".mlp.shared_experts.up_proj.", ".shared_mlp.input_linear."},
                             {".mlp.shared_experts.down_proj.", ".shared_mlp.output_linear."}};
  const std::size_t at = name.find(kExperts);
  if (at == std::string::npos) return renamed(name, kRest);
  const bool down = name.find(".down_proj.") != std::string::npos;
  return name.substr(0, at) + ".block_sparse_moe." + (down ? "output_linear" : "input_linear") +
         name.substr(name.rfind('.'));
}

PartOfTensor part_of_granite_moe(const DecoderConfig& c, const std::string& name) {
  if (name.find("experts.") == std::string::npos) return {};
  const bool shared = name.find(".shared_experts.") != std::string::npos;
  return gates_and_ups(shared ? c.shared_intermediate : c.intermediate, name);
}

std::string all_experts_name(const std::string& name) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  const std::size_t at = name.find(kExperts);
  if (at == std::string::npos || !name.ends_with(".weight")) return "";
  const bool down = name.find(".down_proj.") != std::string::npos;
  return name.substr(0, at + kExperts.size()) + (down ? "down_proj" : "gate_up_proj");
}

PartOfTensor part_of_all_experts(const DecoderConfig& c, const std::string& name) {
  return gates_and_ups(c.intermediate, name);
}

std::int64_t neighbouring_row(const BlockConfig& c, std::int64_t row) {
  const std::int64_t head = row / c.head_dim, half = c.rotated() / 2, within = row % c.head_dim;
  if (within >= 2 * half) return row;
  return head * c.head_dim + 2 * (within % half) + within / half;
}

}  // namespace forerun::internal
