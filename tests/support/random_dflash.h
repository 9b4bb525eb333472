#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <utility>
#include <vector>

#include "forerun/models/dflash/dflash.h"

/// Small random networks in which every part matters: norms far from one, a mask vector, grouped
/// queries.
namespace forerun {

inline DFlashConfig small_dflash(std::vector<LayerAttention> attention) {
  return {.hidden = 24,
          .intermediate = 40,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .layers = static_cast<std::int64_t>(attention.size()),
          .vocab = 50,
          .draft_vocab = 50,
          .target_layers = 9,
          .feature_layers = {1, 4, 6},
          .block = 5,
          .norm_eps = 1e-6,
          .rope_theta = 10000.0,
          .attention = std::move(attention)};
}

inline DFlash noisy_dflash(const DFlashConfig& c, at::ScalarType type, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto normal = [&](at::IntArrayRef shape, double deviation) {
    return at::randn(shape, generator, at::TensorOptions(at::kDouble)).mul_(deviation).to(type);
  };
  const auto matrix = [&](std::int64_t out, std::int64_t in) {
    return normal({out, in}, 1.5 / std::sqrt(static_cast<double>(in)));
  };
  const auto norm = [&](std::int64_t n) { return normal({n}, 0.3).add_(1.0); };
  DFlash m;
  m.config = c;
  m.fc = matrix(c.hidden, c.features() * c.hidden);
  m.hidden_norm = norm(c.hidden);
  m.norm = norm(c.hidden);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    m.layers.push_back({.attention_norm = norm(c.hidden),
                        .mlp_norm = norm(c.hidden),
                        .q = matrix(c.heads * c.head_dim, c.hidden),
                        .k = matrix(c.kv_heads * c.head_dim, c.hidden),
                        .v = matrix(c.kv_heads * c.head_dim, c.hidden),
                        .o = matrix(c.hidden, c.heads * c.head_dim),
                        .q_norm = norm(c.head_dim),
                        .k_norm = norm(c.head_dim),
                        .gate = matrix(c.intermediate, c.hidden),
                        .up = matrix(c.intermediate, c.hidden),
                        .down = matrix(c.hidden, c.intermediate)});
  }
  m.embedding = normal({c.vocab, c.hidden}, 1.0);
  m.head = matrix(c.draft_vocab, c.hidden);
  m.mask_embedding = normal({c.hidden}, 1.0);
  if (c.markov_rank > 0) {
    m.markov_w1 = normal({c.vocab, c.markov_rank}, 1.0);
    m.markov_w2 = matrix(c.draft_vocab, c.markov_rank);
  }
  if (c.confidence) {
    m.confidence_weight = matrix(1, c.confidence_inputs());
    m.confidence_bias = normal({1}, 1.0);
  }
  if (c.slot_state) m.slot_state = matrix(c.hidden, c.hidden);
  return m;
}

/// Features of `rows` positions.
inline at::Tensor random_features(const DFlashConfig& c, std::int64_t rows, at::ScalarType type,
                                  std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn({rows, c.features() * c.hidden}, generator, at::TensorOptions(at::kDouble))
      .to(type);
}

}  // namespace forerun
