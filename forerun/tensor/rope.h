#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace forerun {

/// The rotary embedding of the rows of one pass, shared by its layers.
struct Rotation {
  at::Tensor cos;  ///< [rows, 1, dim / 2] float32
  at::Tensor sin;  ///< [rows, 1, dim / 2] float32

  /// @param x  [rows, heads, dim]; dimension j is paired with j + dim / 2
  at::Tensor operator()(const at::Tensor& x) const;
};

/// Rotary position embedding. Source: Su et al. 2021, arXiv:2104.09864.
struct Rope {
  at::Tensor inverse_frequencies;  ///< [dim / 2] float32, after any scaling

  explicit Rope(const std::vector<float>& inverse_frequencies);
  Rope() = default;

  /// @param positions  [rows] int64
  Rotation at(const at::Tensor& positions) const;
};

}  // namespace forerun
