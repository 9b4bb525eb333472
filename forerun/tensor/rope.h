#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// Queries that grow with their position, so that attention over long texts stays sharp:
/// 1 + beta ln(1 + floor(position / context)), exactly 1 within the first `context` positions.
/// Source: Llama 4; as in transformers' modeling_ministral3.py.
struct QueryGrowth {
  double beta = 0.0;  ///< 0: they do not grow
  double context = 1.0;

  bool none() const noexcept { return beta == 0.0; }
  double at(std::int64_t position) const noexcept;
  bool operator==(const QueryGrowth&) const = default;
};

/// The rotary embedding of the rows of one pass, shared by its layers.
struct Rotation {
  /// [rows, 1, dim / 2] float32; float64 in a float64 network; undefined: nothing is rotated
  at::Tensor cos, sin;
  at::Tensor growth;  ///< [rows, 1, 1] float32, of queries; undefined: none

  /// @param x  [rows, heads, dim or more]; dimension j is paired with j + dim / 2, those behind
  ///           `dim` stay
  at::Tensor operator()(const at::Tensor& x) const;
  /// @param queries  [rows, heads, dim], rotated
  at::Tensor grown(const at::Tensor& queries) const;
};

/// [sum of lengths] int64: positions of the rows of documents, concatenated.
at::Tensor document_positions(std::span<const std::int64_t> lengths);

/// Rotary position embedding. Source: Su et al. 2021, arXiv:2104.09864.
struct Rope {
  at::Tensor inverse_frequencies;  ///< [dim / 2] float32, after any scaling
  double size = 1.0;               ///< of cosines and sines (YaRN)
  QueryGrowth growth;

  explicit Rope(const std::vector<float>& inverse_frequencies, double size = 1.0,
                const QueryGrowth& growth = {});
  Rope() = default;

  /// Angles are float32 for any network, as in every implementation.
  /// @param positions  [rows] int64
  /// @param network    type of its weights
  Rotation at(const at::Tensor& positions, at::ScalarType network = at::kFloat) const;
};

}  // namespace forerun
