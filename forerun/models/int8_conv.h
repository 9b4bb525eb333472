#pragma once

#include <cstdint>

#include "forerun/models/dynamic_conv.h"
#include "forerun/tensor/cpu/int8_matrix.h"

namespace forerun {

/// A DynamicConv for the int8 engine: the projection in int8, the rest in float32.
class Int8Conv {
 public:
  Int8Conv() = default;
  static Int8Conv pack(const DynamicConv& conv, const BlockConfig& config, Arena& arena);

  bool defined() const noexcept { return base_.defined(); }
  const Int8Matrix& projection() const noexcept { return projection_; }
  std::int64_t bytes() const noexcept {
    return projection_.bytes() + (defined() ? static_cast<std::int64_t>(base_.nbytes()) : 0);
  }

  /// One row of the convolution.
  /// @param side    0: of the sublayer's input, 1: of its output
  /// @param x       [hidden] float32: the row; those before it lie in front of it
  /// @param place   of the row in its run
  /// @param deltas  [2 * taps * groups] float32: the row's product with the projection
  /// @param out     [hidden] float32, not among the rows
  void row(std::int64_t side, const float* x, std::int64_t place, const float* deltas,
           float* out) const;

 private:
  Int8Matrix projection_;
  at::Tensor base_;  // [2, taps, hidden] float32
  std::int64_t taps_ = 0, hidden_ = 0, group_ = 1;
};

}  // namespace forerun
