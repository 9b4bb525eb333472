#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// The rotary embedding of the rows of one pass, shared by its layers.
struct Rotation {
  at::Tensor cos, sin;  ///< [rows, 1, dim / 2] float32; float64 in a float64 network

  /// @param x  [rows, heads, dim]; dimension j is paired with j + dim / 2
  at::Tensor operator()(const at::Tensor& x) const;
};

/// [sum of lengths] int64: positions of the rows of documents, concatenated.
at::Tensor document_positions(std::span<const std::int64_t> lengths);

/// Rotary position embedding. Source: Su et al. 2021, arXiv:2104.09864.
struct Rope {
  at::Tensor inverse_frequencies;  ///< [dim / 2] float32, after any scaling

  explicit Rope(const std::vector<float>& inverse_frequencies);
  Rope() = default;

  /// Angles are float32 for any network, as in every implementation.
  /// @param positions  [rows] int64
  /// @param network    type of its weights
  Rotation at(const at::Tensor& positions, at::ScalarType network = at::kFloat) const;
};

}  // namespace forerun
