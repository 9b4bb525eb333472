#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "forerun/formats/tensor_view.h"

namespace forerun {

/// Which stored row holds row `r` of a matrix.
using RowMap = std::function<std::int64_t(std::int64_t)>;

/// A matrix in the form of its file, which stays mapped: some rows at a time are unpacked to
/// float32 when a product needs them. A model takes no more memory than its file so, of which the
/// system keeps what fits; every pass unpacks all weights again.
class StoredMatrix {
 public:
  /// @param view    [rows, columns]; rows of whole blocks
  /// @param order   none: as they are stored
  /// @param memory  keeps the file mapped
  /// @throws std::invalid_argument  no matrix of weights, rows that are not whole blocks, or
  /// nothing that keeps the file mapped
  StoredMatrix(const TensorView& view, RowMap order, std::shared_ptr<const void> memory);

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t columns() const noexcept { return columns_; }
  /// Of the file.
  std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(bytes_.size()); }
  DType dtype() const noexcept { return dtype_; }
  /// The stored bytes of row `r` of the matrix.
  std::span<const std::byte> row(std::int64_t r) const {
    return bytes_.subspan(static_cast<std::size_t>(order_ ? order_(r) : r) * row_bytes_,
                          row_bytes_);
  }
  /// [rows, columns] float32: all of it.
  at::Tensor unpacked() const;

  /// @param x  [n, columns] float32
  /// @return   [n, rows] float32: x W^T, the product of the unpacked matrix up to the order of sums
  at::Tensor multiply(const at::Tensor& x) const;
  /// @param ids  [n] int64, rows of the matrix
  /// @return     [n, columns] float32
  at::Tensor select(const at::Tensor& ids) const;

 private:
  void unpack(std::int64_t first, std::int64_t count, float* out) const;

  DType dtype_;
  std::int64_t rows_ = 0, columns_ = 0;
  std::span<const std::byte> bytes_;
  std::size_t row_bytes_ = 0;
  RowMap order_;
  std::shared_ptr<const void> memory_;
};

}  // namespace forerun
