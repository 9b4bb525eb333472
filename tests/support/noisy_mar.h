#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "forerun/models/mar/init_mar.h"
#include "forerun/models/mar/mar.h"

namespace forerun::testing {

/// 16 tokens of 16 numbers in three classes.
inline MarConfig small_mar() {
  MarConfig c;
  c.side = 16;
  c.patch = 4;
  c.classes = 3;
  c.hidden = 32;
  c.heads = 2;
  c.mlp = 64;
  c.depth = 2;
  c.head_width = 32;
  c.head_blocks = 1;
  c.x0_low = -2.5;
  c.x0_high = 2.5;
  c.calibration = {.times = {0, 500, 999}, .errors = {0.02, 0.15, 0.6}};
  return c;
}

/// Random weights, all nonzero: tokens depend on those before them and on the class.
inline Mar noisy_mar(const MarConfig& config, std::uint64_t seed = 1) {
  at::manual_seed(seed);
  Mar m = random_mar(config, seed);
  for (const ModelWeight& w : weights(m)) {
    const double spread = w.tensor->dim() > 1 ? 0.25 : 0.05;
    w.tensor->add_(spread * at::randn_like(*w.tensor));
  }
  return m;
}

/// A draft of it: every weight off by a share of itself.
inline Mar perturbed_mar(const Mar& target, double share, std::uint64_t seed = 2) {
  at::manual_seed(seed);
  Mar m = target;
  for (const ModelWeight& w : weights(m)) {
    *w.tensor = w.tensor->mul(1.0 + share * at::randn_like(*w.tensor));
  }
  return m;
}

}  // namespace forerun::testing
