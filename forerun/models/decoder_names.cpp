// What files of some families name a decoder's weights.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "forerun/models/build_decoder.h"
#include "forerun/models/internal/joined_tensors.h"

namespace forerun {
namespace {

// llama.cpp's names of the tensors of a block, and of the others.
constexpr std::pair<std::string_view, std::string_view> kGgufNames[] = {
    {"model.embed_tokens.", "token_embd."},
    {"lm_head.", "output."},
    {"model.norm.", "output_norm."},
    {"input_layernorm.", "attn_norm."},
    {"self_attn.qkv_proj.", "attn_qkv."},
    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."},
    {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."},
    {"pre_feedforward_layernorm.", "ffn_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.gate.", "ffn_gate_inp."},
    {"mlp.shared_expert_gate.", "ffn_gate_inp_shexp."},
    {"mlp.gate_up_proj.", "ffn_up."},
    {"linear_attn.in_proj_qkv.", "attn_qkv."},
    {"linear_attn.in_proj_z.", "attn_gate."},
    {"linear_attn.in_proj_qkvz.", "ssm_in."},
    {"linear_attn.in_proj_ba.", "ssm_ba."},
    {"linear_attn.in_proj_b.", "ssm_beta."},
    {"linear_attn.in_proj_a.", "ssm_alpha."},
    {"linear_attn.conv1d.", "ssm_conv1d."},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.norm.", "ssm_norm."},
    {"linear_attn.out_proj.", "ssm_out."},
    {"conv.", "shortconv."},
    {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."}};

// Where a name in a layer begins behind the layer's number.
constexpr std::string_view kLayerPrefix = "model.layers.";
std::size_t after_layer(const std::string& name) { return name.find('.', kLayerPrefix.size()) + 1; }

std::string gguf_layer(const std::string& name) {
  const std::size_t end = after_layer(name);
  return fmt::format("blk.{}.", name.substr(kLayerPrefix.size(), end - 1 - kLayerPrefix.size()));
}

// "gate" and "weight" of "...experts.3.gate_proj.weight".
std::pair<std::string, std::string> kind_and_end(const std::string& name) {
  const std::size_t kind = name.find("_proj."), from = name.rfind('.', kind) + 1;
  return {name.substr(from, kind - from), name.substr(kind + 6)};
}

}  // namespace

std::string gguf_name(const DecoderConfig& c, const std::string& name) {
  std::string prefix, rest = name;
  if (c.family == Family::kLfm2 && name == "model.norm.weight") return "token_embd_norm.weight";
  if (name.starts_with(kLayerPrefix)) {
    prefix = gguf_layer(name);
    rest = internal::joined_name(c, name).substr(after_layer(name));
  }
  for (const auto& [theirs, gguf] :
       {std::pair("mlp.experts.", "exps"), std::pair("mlp.shared_experts.", "shexp"),
        std::pair("mlp.shared_expert.", "shexp")}) {
    if (!rest.starts_with(theirs)) continue;
    const auto [kind, end] = kind_and_end(rest);
    return fmt::format("{}ffn_{}_{}.{}", prefix, kind, gguf, end);
  }
  for (const auto& [theirs, gguf] : kGgufNames) {
    if (rest.starts_with(theirs))
      return fmt::format("{}{}{}", prefix, gguf, rest.substr(theirs.size()));
  }
  // The only name of two meanings: the norm before the MLP, or after attention.
  return prefix + (c.named_after_attention() ? "post_attention_norm.weight" : "ffn_norm.weight");
}

std::string gguf_single_expert(const std::string& name) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  const std::size_t number = name.find(kExperts) + kExperts.size(), dot = name.find('.', number);
  const auto [kind, end] = kind_and_end(name);
  return fmt::format("{}ffn_{}.{}.{}", gguf_layer(name), kind, name.substr(number, dot - number),
                     end);
}

std::string nemotron_name(const std::string& name) {
  constexpr std::string_view kModel = "model.";
  return name.starts_with(kModel) ? "encoder." + name.substr(kModel.size())
                                  : "diffusion_head.weight";
}

std::string mixtral_name(const std::string& name) {
  constexpr std::string_view kMlp = ".mlp.";
  const std::size_t at = name.find(kMlp);
  if (at == std::string::npos) return name;
  std::string out = name;
  out.replace(at, kMlp.size(), ".block_sparse_moe.");
  constexpr std::pair<std::string_view, std::string_view> kMatrices[] = {
      {".gate_proj.", ".w1."}, {".down_proj.", ".w2."}, {".up_proj.", ".w3."}};
  for (const auto& [ours, theirs] : kMatrices) {
    const std::size_t matrix = out.find(ours);
    if (matrix != std::string::npos) out.replace(matrix, ours.size(), theirs);
  }
  return out;
}

std::string ernie_name(const std::string& name) {
  constexpr std::string_view kGate = ".mlp.gate.e_score", kStatics = ".mlp.moe_statics.e_score";
  const std::size_t at = name.find(kGate);
  return at == std::string::npos ? name : std::string(name).replace(at, kGate.size(), kStatics);
}

std::string lfm2_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"model.norm.", "model.embedding_norm."},
      {".input_layernorm.", ".operator_norm."},
      {".post_attention_layernorm.", ".ffn_norm."},
      {".self_attn.o_proj.", ".self_attn.out_proj."},
      {".q_norm.", ".q_layernorm."},
      {".k_norm.", ".k_layernorm."},
      {".gate.e_score_correction_bias", ".expert_bias"},
      {".gate_proj.", ".w1."},
      {".up_proj.", ".w3."},
      {".down_proj.", ".w2."},
      {".mlp.", ".feed_forward."}};
  std::string out = name;
  for (const auto& [ours, theirs] : kNames) {
    const std::size_t at = out.find(ours);
    if (at != std::string::npos) out.replace(at, ours.size(), theirs);
  }
  return out;
}

std::string gpt_oss_name(const std::string& name) {
  constexpr std::string_view kRouter = ".mlp.gate.", kExperts = ".mlp.experts.";
  std::string out = name;
  if (const std::size_t at = name.find(kRouter); at != std::string::npos) {
    return out.replace(at, kRouter.size(), ".mlp.router.");
  }
  const std::size_t at = name.find(kExperts);
  if (at == std::string::npos) return name;
  const bool down = name.find("down_proj") != std::string::npos;
  return fmt::format("{}{}{}", name.substr(0, at + kExperts.size()),
                     down ? "down_proj" : "gate_up_proj", name.ends_with(".bias") ? "_bias" : "");
}

}  // namespace forerun
