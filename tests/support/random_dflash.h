#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <utility>
#include <vector>

#include "forerun/models/dflash/dflash.h"

/// Small random networks in which every part matters: norms far from one, a mask vector, grouped
/// queries.
namespace forerun {

inline constexpr LayerAttention kFull{};
inline constexpr LayerAttention kCausalWindow{.window = 6, .causal = true};
inline constexpr LayerAttention kBothWaysWindow{.window = 3};

inline DFlashConfig small_dflash(std::vector<LayerAttention> attention) {
  DFlashConfig c;
  c.hidden = 24;
  c.intermediate = 40;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 8;
  c.layers = static_cast<std::int64_t>(attention.size());
  c.vocab = c.draft_vocab = 50;
  c.target_layers = 9;
  c.feature_layers = {1, 4, 6};
  c.block = 5;
  c.attention = std::move(attention);
  return c;
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
  DFlash m(c);
  for (const ModelWeight& w : weights(m)) {
    if (w.name.ends_with("base_kernel")) {
      *w.tensor = normal(w.shape, 0.6);
    } else if (w.name.ends_with("kernel_projection.weight")) {
      *w.tensor = matrix(w.shape[0], w.shape[1]).mul_(0.3);
    } else {
      *w.tensor = w.shape.size() == 1 ? norm(w.shape[0]) : matrix(w.shape[0], w.shape[1]);
    }
  }
  m.embedding = normal({c.vocab, c.hidden}, 1.0);
  m.head = matrix(c.draft_vocab, c.hidden);
  m.mask_embedding = normal({c.hidden}, 1.0);
  if (c.markov_rank > 0) m.markov_w1 = normal({c.vocab, c.markov_rank}, 1.0);
  if (c.confidence) m.confidence_bias = normal({1}, 1.0);
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
