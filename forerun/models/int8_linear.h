#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>

#include "forerun/tensor/cpu/int8_matrix.h"
#include "forerun/tensor/linear.h"
#include "forerun/tensor/norm.h"

namespace forerun {

/// Another order of the outputs of a matrix.
struct OutputOrder {
  std::int64_t outputs = 0;
  std::function<std::int64_t(std::int64_t)> from;  ///< output `i` is that one; -1: zero

  /// @param rows  [n, ...] float32
  /// @return      [outputs, ...]
  at::Tensor of(const at::Tensor& rows) const;
};

/// Linear layers of one input as one matrix of the int8 engine: in 4 bits if all of them are
/// `stored` in groups of 4-bit numbers whose scales float16 holds, else in int8.
/// @param order  of the outputs of all, side by side; null: as they are
Int8Matrix pack_linear(std::initializer_list<const Linear*> parts, const OutputOrder* order,
                       Arena& arena);

/// A tensor or norm as the packing and the inner loops read it: float32, without gradients.
at::Tensor plain_values(const at::Tensor& t);
RmsNorm plain_values(const RmsNorm& norm);

}  // namespace forerun
