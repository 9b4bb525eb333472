#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "forerun/tensor/cpu/arena.h"

namespace forerun {

/// Weights [n, k] in bf16, packed for Kernels::pair_product; products are summed in float32.
class Bf16Matrix {
 public:
  static constexpr std::int64_t kPanel = 64;  ///< outputs computed together

  Bf16Matrix() = default;
  /// @param weight  [n, k] float32; k even
  /// @param bias    [n] float32, or undefined
  /// @param arena   for the packed weights
  static Bf16Matrix pack(const at::Tensor& weight, const at::Tensor& bias, Arena& arena);

  std::int64_t outputs() const noexcept { return outputs_; }
  std::int64_t inputs() const noexcept { return inputs_; }
  /// Outputs padded to a multiple of 16: values of a row of products.
  std::int64_t columns() const noexcept { return (outputs_ + 15) / 16 * 16; }
  std::int64_t panels() const noexcept { return (columns() + kPanel - 1) / kPanel; }

  /// Rows of bf16 values and of results.
  struct Rows {
    const std::uint16_t* in;  ///< [rows, in_stride], `inputs` of each are read
    std::int64_t in_stride;   ///< even
    float* out;               ///< [rows, out_stride], `columns` of each are written
    std::int64_t out_stride;
    std::int64_t rows;
  };
  /// Products and bias; or the products are added to the existing values. A row's outputs do not
  /// depend, bit for bit, on other rows.
  void multiply(const Rows& rows, bool add = false) const { multiply(0, panels(), rows, add); }
  /// Panels [first, last) alone.
  void multiply(std::int64_t first, std::int64_t last, const Rows& rows, bool add = false) const;

 private:
  std::int64_t outputs_ = 0, inputs_ = 0;
  std::shared_ptr<std::uint16_t[]> data_;  // panels of [k / 2][up to 64][2]
  std::shared_ptr<float[]> bias_;
};

}  // namespace forerun
