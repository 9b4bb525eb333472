#pragma once

#include <cstdint>

#include "forerun/tensor/cpu/bf16_matrix.h"
#include "forerun/tensor/cpu/rows/row_matrix.h"

namespace forerun {

/// A linear layer of the diffusion head: rows of float32, or of bf16 with float32 sums. A row's
/// results do not depend, bit for bit, on other rows or on how panels are divided.
class HeadMatrix {
 public:
  HeadMatrix() = default;
  explicit HeadMatrix(const Linear& layer) : rows_(RowMatrix::pack(layer)) {}
  /// @param arena  for the packed weights, in bf16
  HeadMatrix(const Linear& layer, Arena& arena)
      : bf16_(true), halves_(Bf16Matrix::pack(layer.weight, layer.bias, arena)) {}

  std::int64_t columns() const noexcept { return bf16_ ? halves_.columns() : rows_.columns(); }
  std::int64_t panels() const noexcept { return bf16_ ? halves_.panels() : rows_.panels(); }
  /// Outputs of a panel; the last may have fewer.
  std::int64_t panel() const noexcept { return bf16_ ? Bf16Matrix::kPanel : rows::kPanel; }

  struct Rows {
    const float* in;            ///< [rows, inputs]; in bf16 not read
    const std::uint16_t* half;  ///< [rows, inputs] bf16; in float32 not read
    float* out;                 ///< [rows, columns()]
    std::int64_t rows;
  };
  /// Panels [first, last) of all rows.
  void multiply(const Rows& r, std::int64_t first, std::int64_t last) const {
    if (bf16_) {
      halves_.multiply(first, last, {r.half, halves_.inputs(), r.out, columns(), r.rows});
    } else {
      rows_.multiply({r.in, rows_.inputs(), r.out, columns(), r.rows}, first, last);
    }
  }

 private:
  bool bf16_ = false;
  RowMatrix rows_;
  Bf16Matrix halves_;
};

}  // namespace forerun
