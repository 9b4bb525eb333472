#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <string>

#include "forerun/models/dflash/dflash.h"

namespace forerun {

DFlash::DFlash(const DFlashConfig& c) : config(c) {
  hidden_norm.eps = norm.eps = c.norm_eps;
  layers.assign(static_cast<std::size_t>(c.layers), TransformerBlock(c));
}

std::vector<ModelWeight> weights(DFlash& m) {
  const DFlashConfig& c = m.config;
  std::vector<ModelWeight> out = {{"fc.weight", &m.fc, {c.hidden, c.features() * c.hidden}},
                                  {"hidden_norm.weight", &m.hidden_norm.weight, {c.hidden}},
                                  {"norm.weight", &m.norm.weight, {c.hidden}}};
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    add_weights(m.layers[i], c, fmt::format("layers.{}.", i), out);
  }
  if (c.slot_state) out.push_back({"slot_state.weight", &m.slot_state, {c.hidden, c.hidden}});
  if (m.mask_embedding.defined() || c.mask_token < 0) {
    out.push_back({"mask_embedding", &m.mask_embedding, {c.hidden}});
  }
  if (c.markov_rank > 0) {
    out.push_back({"markov_head.markov_w1.weight", &m.markov_w1, {c.vocab, c.markov_rank}});
    out.push_back({"markov_head.markov_w2.weight", &m.markov_w2, {c.draft_vocab, c.markov_rank}});
  }
  if (c.markov_gated) {
    const std::int64_t inputs = c.hidden + c.markov_rank;
    out.push_back({"markov_head.gate_proj.weight", &m.markov_gate.weight, {c.markov_rank, inputs}});
    out.push_back({"markov_head.gate_proj.bias", &m.markov_gate.bias, {c.markov_rank}});
  }
  if (const std::int64_t rank = c.selector_rank; rank > 0) {
    const std::string prefix = "candidate_selector.";
    out.push_back({prefix + "predecessor_codebook", &m.predecessors, {c.vocab, rank}});
    out.push_back({prefix + "successor_codebook", &m.successors, {c.draft_vocab, rank}});
    out.push_back({prefix + "hidden_projection.weight", &m.selector_projection, {rank, c.hidden}});
  }
  if (c.confidence) {
    out.push_back(
        {"confidence_head.proj.weight", &m.confidence_weight, {1, c.confidence_inputs()}});
    out.push_back({"confidence_head.proj.bias", &m.confidence_bias, {1}});
  }
  return out;
}

}  // namespace forerun
