#include "forerun/models/medusa/init_medusa.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>

namespace forerun {
namespace {

void check(const MedusaConfig& c, const DecoderLm& target, const at::Tensor& draft_to_target) {
  const DecoderConfig& t = target.config;
  const std::int64_t mapped = draft_to_target.defined() ? draft_to_target.numel() : c.vocab;
  if (c.hidden == t.hidden && c.vocab == t.vocab && c.target_layers == t.layers &&
      c.draft_vocab == mapped) {
    return;
  }
  throw std::invalid_argument(fmt::format(
      "medusa: a config for hidden size {}, vocabulary {}, {} layers and {} drafted tokens; the "
      "target has {}, {}, {}, and {} tokens are given",
      c.hidden, c.vocab, c.target_layers, c.draft_vocab, t.hidden, t.vocab, t.layers, mapped));
}

// Weights of the last norms with which logits begin with a standard deviation of a half: the first
// law is near the uniform one, whatever the size of the target's rows.
double first_scale(const at::Tensor& head) {
  return 0.5 / std::max(head.square().sum(1).sqrt().mean().item<double>(), 1e-6);
}

// [draft_vocab, width]: the target's rows in the directions of their largest singular values.
at::Tensor truncated(const at::Tensor& rows, std::int64_t width) {
  const std::int64_t kept = std::min(width, rows.size(1));
  const auto [values, vectors] = at::linalg_eigh(at::matmul(rows.t(), rows));  // rising
  at::Tensor out = at::zeros({rows.size(0), width}, at::kFloat);
  out.narrow(1, 0, kept).copy_(at::matmul(rows, vectors.flip(1).narrow(1, 0, kept)));
  return out;
}

}  // namespace

Medusa medusa_from_target(const MedusaConfig& c, const DecoderLm& target, std::uint64_t seed,
                          const at::Tensor& draft_to_target) {
  check(c, target, draft_to_target);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Medusa m(c);
  for (const ModelWeight& w : weights(m)) {
    if (w.shape.size() == 1) {
      *w.tensor = at::ones(w.shape, at::kFloat);
      continue;
    }
    // What is added to a row adds little at first.
    const bool adds = w.tensor == &m.down.weight || w.tensor == &m.heads.weight;
    const double scale = (adds ? 0.5 : 1.0) / std::sqrt(static_cast<double>(w.shape[1]));
    *w.tensor = at::randn(w.shape, generator, at::TensorOptions(at::kFloat)).mul_(scale);
  }
  if (m.markov_w2.defined()) m.markov_w2.zero_();
  m.draft_to_target = draft_to_target;
  m.embedding = target.embedding.to(at::kFloat);
  const at::Tensor head = target.head().to(at::kFloat);
  const at::Tensor rows =
      (draft_to_target.defined() ? head.index_select(0, draft_to_target) : head) *
      target.final_norm.weight.to(at::kFloat);
  m.head = truncated(rows, c.width);
  for (RmsNorm& n : m.head_norms) n.weight.mul_(first_scale(m.head));
  return m;
}

}  // namespace forerun
