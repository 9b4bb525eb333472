#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <cstdint>

#include "forerun/models/medusa/medusa.h"

/// Small random Medusa heads in which every part matters: norms far from one.
namespace forerun {

inline MedusaConfig small_medusa() {
  MedusaConfig c;
  c.hidden = 24;
  c.vocab = c.draft_vocab = 50;
  c.target_layers = 9;
  c.feature_layers = {1, 4, 6};
  c.width = 32;
  c.intermediate = 40;
  c.heads = 3;
  return c;
}

inline Medusa noisy_medusa(const MedusaConfig& c, at::ScalarType type, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto normal = [&](at::IntArrayRef shape, double deviation) {
    return at::randn(shape, generator, at::TensorOptions(at::kDouble)).mul_(deviation).to(type);
  };
  Medusa m(c);
  for (const ModelWeight& w : weights(m)) {
    if (w.shape.size() == 1) {
      *w.tensor = normal(w.shape, 0.3).add_(1.0);
    } else {
      *w.tensor = normal(w.shape, 1.5 / std::sqrt(static_cast<double>(w.shape[1])));
    }
  }
  if (c.markov_rank > 0) m.markov_w1 = normal({c.vocab, c.markov_rank}, 1.0);
  m.embedding = normal({c.vocab, c.hidden}, 1.0);
  return m;
}

/// Features of `rows` positions.
inline at::Tensor random_features(const MedusaConfig& c, std::int64_t rows, at::ScalarType type,
                                  std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn({rows, c.feature_width()}, generator, at::TensorOptions(at::kDouble)).to(type);
}

}  // namespace forerun
