#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "forerun/formats/four_bit_groups.h"
#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/arena.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/thread_team.h"

namespace forerun {

/// Activations of a pass as int8, rotated (Kernels::rotate_row), one scale a row. Without the
/// rotation one scale a row would cost the models here 0.03 nats a token: a few channels are far
/// larger than the others. For matrices that are `grouped` every 32 values have a scale instead.
class Int8Activations {
 public:
  /// Room for `rows` rows of `k` values; allocates nothing if the room exists.
  /// @param far  kernel::Int8Rows::far
  kernel::Int8Rows room_for(std::int64_t rows, std::int64_t k, bool far = false);

 private:
  AlignedBuffer<std::int8_t> values_;
  AlignedBuffer<kernel::RowScale> scales_;
  AlignedBuffer<std::int16_t> halves_;
  AlignedBuffer<kernel::GroupScale> groups_;
};

/// Weights [n, k] in int8, rotated like the rows, symmetric, one scale an output, packed for
/// Kernels::int8_panel. Or in 4 bits, as their file groups them, for Kernels::int4_panel.
class Int8Matrix {
 public:
  /// Per row: its integer sums fit 32 bits.
  static constexpr std::int64_t kMostInputs = 65536;

  Int8Matrix() = default;
  /// @param weight  [n, k] float32, k at most kMostInputs
  /// @param bias    [n] float32, or undefined
  /// @param arena   for the packed weights
  /// @throws std::invalid_argument  more inputs
  static Int8Matrix pack(const at::Tensor& weight, const at::Tensor& bias, Arena& arena);

  /// The groups of output `row`, or none: its weights are zero.
  using GroupsOf = std::function<bool(std::int64_t row, std::span<FourBitGroup> out)>;
  /// In 4 bits. Levels are those of the groups, scales and least values are rounded to float16.
  /// @param inputs  a multiple of 32, at most kMostInputs
  /// @param groups  called by several threads
  /// @param kind    of the levels of all groups
  static Int8Matrix pack_groups(std::int64_t outputs, std::int64_t inputs, const GroupsOf& groups,
                                LevelKind kind, const at::Tensor& bias, Arena& arena);

  /// Whether its weights have 4 bits: then it multiplies grouped rows.
  bool grouped() const noexcept { return grouped_; }
  /// The rows in the form that it multiplies, to be filled by Kernels::quantize_row.
  kernel::Int8Rows in_form(kernel::Int8Rows x) const noexcept {
    x.grouped = grouped_;
    return x;
  }

  std::int64_t outputs() const noexcept { return outputs_; }
  std::int64_t inputs() const noexcept { return inputs_; }
  std::int64_t panels() const noexcept { return (outputs_ + kernel::kPanel - 1) / kernel::kPanel; }
  std::int64_t bytes() const noexcept { return panels() * panel_bytes(); }

  /// What a thread reads first if all outputs are one phase.
  const std::uint8_t* first_panel(const ThreadTeam::Worker& worker) const noexcept {
    return data_.get() + worker.own_begin(panels()) * panel_bytes();
  }

  /// Panels [first, last) for `rows` rows: out[r * stride + j] = (or += if `add`) output j, where
  /// out[0] is output `first * 48` if `out` starts there.
  /// @param next  what the thread reads next, to prefetch; null: the next panel, if that pays
  void multiply(std::int64_t first, std::int64_t last, const kernel::Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, bool add,
                const std::uint8_t* next = nullptr) const;
  /// All outputs, as a phase of a job: out is [rows, stride], from output 0.
  /// @param next  what this thread reads first in the next such phase, to prefetch; or null
  void multiply(ThreadTeam::Worker& worker, const kernel::Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, bool add,
                const std::uint8_t* next = nullptr) const;

 private:
  std::int64_t panel_bytes() const noexcept {
    return grouped_ ? inputs_ / kernel::kGroup * kernel::kInt4GroupBytes
                    : kernel::rotated_width(inputs_) * kernel::kPanel;
  }
  void keep_bias(const at::Tensor& bias, Arena& arena);

  std::int64_t outputs_ = 0, inputs_ = 0;
  bool grouped_ = false;
  LevelKind kind_ = LevelKind::kLinear;  // if grouped
  std::shared_ptr<std::uint8_t[]> data_;
  std::shared_ptr<float[]> scales_, bias_;
};

}  // namespace forerun
