#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace forerun {

/// Cosines and sines of the rotary embedding for every position up to a context length.
/// Source: Su et al. 2021, arXiv:2104.09864; pairing of dimension j with j + dim / 2.
struct RopeTable {
  at::Tensor cos;  ///< [positions, dim / 2] float32
  at::Tensor sin;  ///< [positions, dim / 2] float32

  /// @param inverse_frequencies  [dim / 2], after any scaling
  RopeTable(const std::vector<float>& inverse_frequencies, std::int64_t positions);
  RopeTable() = default;

  /// Rotates `x` [rows, heads, dim]; row i stands at positions[i].
  /// @param positions  [rows] int64
  at::Tensor rotate(const at::Tensor& x, const at::Tensor& positions) const;
};

}  // namespace forerun
