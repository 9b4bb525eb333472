#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/rows/row_kernels.h"
#include "forerun/tensor/linear.h"

namespace forerun {

/// A linear layer packed for few rows of float32 at a time. Weights that bfloat16 holds exactly are
/// kept in it, which halves what a pass reads and changes no bit of the result.
class RowMatrix {
 public:
  RowMatrix() = default;
  /// @param layer  [outputs, inputs] float32 with a bias
  static RowMatrix pack(const Linear& layer);
  /// Layers of one input as one, each from a multiple of 16 outputs on.
  /// @throws std::invalid_argument  other inputs, or outputs that are no multiple of 16
  static RowMatrix pack(std::span<const Linear* const> layers);

  std::int64_t inputs() const noexcept { return inputs_; }
  std::int64_t outputs() const noexcept { return outputs_; }
  /// Values written per row: outputs, up to a multiple of 16.
  std::int64_t columns() const noexcept { return panels_ * rows::kPanel; }
  std::int64_t panels() const noexcept { return panels_; }
  bool half() const noexcept { return half_; }

  struct Rows {
    const float* in;
    std::int64_t in_stride;
    float* out;  ///< columns() values a row
    std::int64_t out_stride, rows;
  };
  void multiply(const Rows& r) const { multiply(r, 0, panels_); }
  /// Some of the panels alone.
  void multiply(const Rows& r, std::int64_t first_panel, std::int64_t last_panel) const;

 private:
  std::int64_t inputs_ = 0, outputs_ = 0, panels_ = 0;
  bool half_ = false;
  AlignedBuffer<std::uint16_t> weights_;  // float32 ones take two each
  std::vector<float> bias_;
};

}  // namespace forerun
