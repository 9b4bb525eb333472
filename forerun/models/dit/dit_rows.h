#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "forerun/models/dit/dit_config.h"

namespace forerun {

/// Classifier-free guidance (Ho and Salimans 2022, arXiv:2207.12598): noise is predicted with and
/// without the class, and the difference scaled.
struct Guidance {
  double scale = 1.0;  ///< 1: the class alone, at half the cost
  /// Number of guided channels, the others use the class alone: 3 in facebookresearch/DiT (of 4),
  /// all in diffusers. 0: all.
  std::int64_t channels = 0;

  bool on() const noexcept { return scale != 1.0; }
  /// Halves of a pass.
  std::int64_t halves() const noexcept { return on() ? 2 : 1; }
};

/// Some images, each at its own time.
struct DitRows {
  at::Tensor states;                            ///< [rows, channels, input, input] float32
  std::span<const std::int64_t> times, labels;  ///< [rows]
};

struct GuidedOutput {
  at::Tensor noise;    ///< [rows, channels, input, input]: guided
  at::Tensor feature;  ///< [rows, halves, tokens, hidden]
};

/// @throws std::invalid_argument  shapes that do not match, invalid labels or times
void check_rows(const DitConfig& config, const DitRows& rows);

/// @param halves  [2, channels, ...] with the class, without; or [1, ...]
/// @return        [channels, ...]
at::Tensor guided(const at::Tensor& halves, const Guidance& guidance);

}  // namespace forerun
