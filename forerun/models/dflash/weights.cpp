#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "forerun/models/dflash/dflash.h"

namespace forerun {

std::vector<ModelWeight> weights(DFlash& m) {
  const DFlashConfig& c = m.config;
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  std::vector<ModelWeight> out = {{"fc.weight", &m.fc, {c.hidden, c.features() * c.hidden}},
                                  {"hidden_norm.weight", &m.hidden_norm, {c.hidden}},
                                  {"norm.weight", &m.norm, {c.hidden}}};
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    DFlashLayer& l = m.layers[i];
    const auto add = [&](const char* name, at::Tensor& t, std::vector<std::int64_t> shape) {
      out.push_back({fmt::format("layers.{}.{}.weight", i, name), &t, std::move(shape)});
    };
    add("input_layernorm", l.attention_norm, {c.hidden});
    add("post_attention_layernorm", l.mlp_norm, {c.hidden});
    add("self_attn.q_proj", l.q, {q, c.hidden});
    add("self_attn.k_proj", l.k, {kv, c.hidden});
    add("self_attn.v_proj", l.v, {kv, c.hidden});
    add("self_attn.o_proj", l.o, {c.hidden, q});
    add("self_attn.q_norm", l.q_norm, {c.head_dim});
    add("self_attn.k_norm", l.k_norm, {c.head_dim});
    add("mlp.gate_proj", l.gate, {c.intermediate, c.hidden});
    add("mlp.up_proj", l.up, {c.intermediate, c.hidden});
    add("mlp.down_proj", l.down, {c.hidden, c.intermediate});
  }
  if (c.slot_state) out.push_back({"slot_state.weight", &m.slot_state, {c.hidden, c.hidden}});
  if (m.mask_embedding.defined() || c.mask_token < 0) {
    out.push_back({"mask_embedding", &m.mask_embedding, {c.hidden}});
  }
  if (c.markov_rank > 0) {
    out.push_back({"markov_head.markov_w1.weight", &m.markov_w1, {c.vocab, c.markov_rank}});
    out.push_back({"markov_head.markov_w2.weight", &m.markov_w2, {c.draft_vocab, c.markov_rank}});
  }
  if (c.confidence) {
    out.push_back(
        {"confidence_head.proj.weight", &m.confidence_weight, {1, c.confidence_inputs()}});
    out.push_back({"confidence_head.proj.bias", &m.confidence_bias, {1}});
  }
  return out;
}

}  // namespace forerun
