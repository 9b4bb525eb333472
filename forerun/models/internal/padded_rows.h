#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>

namespace forerun::internal {

/// Packed rows of groups of different lengths as a batch of equal ones, for devices on which one
/// large operation is faster than a small one for each group.
class PaddedRows {
 public:
  /// @param lengths  rows of each group
  /// @param multiple  the padded length is rounded up to one
  PaddedRows(std::span<const std::int64_t> lengths, const at::Device& device,
             std::int64_t multiple = 1);

  /// @param x  [sum of lengths, ...]
  /// @return   [groups, padded length, ...]; zeros behind a group's rows
  at::Tensor pad(const at::Tensor& x) const;
  /// The inverse: [groups, padded length, ...] as [sum of lengths, ...].
  at::Tensor unpad(const at::Tensor& x) const;

  std::int64_t groups() const noexcept { return groups_; }
  std::int64_t length() const noexcept { return length_; }

 private:
  std::int64_t groups_, length_;
  at::Tensor to_;  // [rows]: the place of each row
};

}  // namespace forerun::internal
