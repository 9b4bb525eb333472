#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "forerun/models/dit/dit.h"
#include "forerun/models/dit/init_dit.h"

namespace forerun::testing {

/// Two blocks of width 16; other sizes as the test needs.
inline DitConfig small_dit(std::int64_t input, std::int64_t patch, std::int64_t channels = 1) {
  DitConfig c;
  c.depth = 2;
  c.hidden = 16;
  c.heads = 2;
  c.patch = patch;
  c.input = input;
  c.channels = channels;
  c.classes = 3;
  c.mlp = 32;
  return c;
}

/// Random weights, all nonzero and representable in bf16: noise, features and classes all matter,
/// and a file holds them exactly.
inline Dit noisy_dit(const DitConfig& config, std::uint64_t seed = 1) {
  at::manual_seed(seed);
  Dit m = random_dit(config, seed);
  for (const ModelWeight& w : weights(m)) {
    w.tensor->add_(at::randn_like(*w.tensor), 0.1);
    w.tensor->copy_(w.tensor->to(at::kBFloat16));
  }
  return m;
}

}  // namespace forerun::testing
