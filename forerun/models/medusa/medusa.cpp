#include "forerun/models/medusa/medusa.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "forerun/tensor/fused.h"

namespace forerun {

Medusa::Medusa(const MedusaConfig& c) : config(c) {
  feature_norms.assign(static_cast<std::size_t>(c.features()),
                       RmsNorm{.weight = {}, .eps = c.norm_eps});
  head_norms.assign(static_cast<std::size_t>(c.heads), RmsNorm{.weight = {}, .eps = c.norm_eps});
  embedding_norm.eps = mlp_norm.eps = norm.eps = c.norm_eps;
}

std::vector<ModelWeight> weights(Medusa& m) {
  const MedusaConfig& c = m.config;
  std::vector<ModelWeight> out;
  for (std::size_t i = 0; i < m.feature_norms.size(); ++i) {
    out.push_back(
        {fmt::format("feature_norms.{}.weight", i), &m.feature_norms[i].weight, {c.hidden}});
  }
  out.push_back({"embedding_norm.weight", &m.embedding_norm.weight, {c.hidden}});
  out.push_back({"fc.weight", &m.fc.weight, {c.width, c.inputs()}});
  out.push_back({"mlp_norm.weight", &m.mlp_norm.weight, {c.width}});
  out.push_back({"mlp.gate_proj.weight", &m.gate.weight, {c.intermediate, c.width}});
  out.push_back({"mlp.up_proj.weight", &m.up.weight, {c.intermediate, c.width}});
  out.push_back({"mlp.down_proj.weight", &m.down.weight, {c.width, c.intermediate}});
  out.push_back({"norm.weight", &m.norm.weight, {c.width}});
  out.push_back({"heads.weight", &m.heads.weight, {c.heads * c.width, c.width}});
  for (std::size_t i = 0; i < m.head_norms.size(); ++i) {
    out.push_back({fmt::format("head_norms.{}.weight", i), &m.head_norms[i].weight, {c.width}});
  }
  out.push_back({"lm_head.weight", &m.head, {c.draft_vocab, c.width}});
  if (c.markov_rank > 0) {
    out.push_back({"markov_head.markov_w1.weight", &m.markov_w1, {c.vocab, c.markov_rank}});
    out.push_back({"markov_head.markov_w2.weight", &m.markov_w2, {c.draft_vocab, c.markov_rank}});
  }
  return out;
}

at::Tensor head_states(const Medusa& m, const at::Tensor& features, const at::Tensor& newest) {
  const MedusaConfig& c = m.config;
  if (features.dim() != 2 || features.size(1) != c.feature_width()) {
    throw std::invalid_argument(fmt::format(
        "medusa: features have {} dimensions, the last of {}; expected rows of {} features of {}",
        features.dim(), features.dim() > 0 ? features.size(-1) : 0, c.features(), c.hidden));
  }
  const at::Tensor x = features.to(m.fc.weight.scalar_type());
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < m.feature_norms.size(); ++i) {
    const auto first = static_cast<std::int64_t>(i) * c.hidden;
    parts.push_back(m.feature_norms[i].fused(x.narrow(1, first, c.hidden)));
  }
  parts.push_back(m.embedding_norm.fused(m.embedding.index_select(0, newest).to(x.scalar_type())));
  at::Tensor z = m.fc(at::cat(parts, 1));
  const at::Tensor normed = m.mlp_norm.fused(z);
  z = z + m.down(fused_swiglu(m.gate(normed), m.up(normed)));
  const at::Tensor y = m.norm.fused(z);
  const at::Tensor all = y.unsqueeze(1) + m.heads(y).view({-1, c.heads, c.width});
  std::vector<at::Tensor> out;
  for (std::size_t k = 0; k < m.head_norms.size(); ++k) {
    out.push_back(m.head_norms[k].fused(all.select(1, static_cast<std::int64_t>(k)).contiguous()));
  }
  return at::stack(out, 1);
}

at::Tensor head_logits(const Medusa& model, const at::Tensor& states) {
  return at::linear(states, model.head);
}

at::Tensor markov_bias(const Medusa& model, const at::Tensor& previous) {
  return at::linear(model.markov_w1.index_select(0, previous), model.markov_w2);
}

}  // namespace forerun
