#pragma once

#include <cstdint>

#include "forerun/models/decoder_config.h"
#include "forerun/tensor/cpu/int8_matrix.h"
#include "forerun/tensor/linear.h"

namespace forerun {

/// A gated MLP in int8: down(activation(gate x) * up x).
class Int8Mlp {
 public:
  Int8Mlp() = default;
  /// @param gate_up  [2 * intermediate, hidden], gates first
  static Int8Mlp pack(const Linear& gate_up, const Linear& down, Activation activation,
                      Arena& arena);

  /// Scratch memory of a thread, in floats.
  static std::int64_t scratch_size(std::int64_t intermediate) noexcept;
  std::int64_t intermediate() const noexcept { return down_.inputs(); }
  std::int64_t bytes() const noexcept { return gate_up_.bytes() + down_.bytes(); }

  /// Memory for the rows of a pass between its phases.
  struct Gated {
    float* values;          ///< [rows, intermediate]
    kernel::Int8Rows rows;  ///< the same as int8
  };

  /// Three phases of a job.
  /// @param x        [rows, hidden]
  /// @param scratch  of this thread
  /// @param out      [rows, stride]; added to if `add`
  /// @param next     the weights that this thread reads next, to prefetch; or null
  void run(ThreadTeam::Worker& worker, const kernel::Int8Rows& x, const Gated& gated,
           std::int64_t rows, float* scratch, float* out, std::int64_t stride, bool add,
           const std::uint8_t* next = nullptr) const;
  /// The weights that a thread reads first.
  const std::uint8_t* first_panel(const ThreadTeam::Worker& worker) const noexcept {
    return gate_up_.first_panel(worker);
  }

 private:
  void gate(const kernel::Int8Rows& x, float* gated, std::int64_t rows, std::int64_t task,
            float* scratch, const std::uint8_t* next) const;

  Int8Matrix gate_up_;  // alternately 96 gates and their 96 ups, padded with zeros
  Int8Matrix down_;
  Activation activation_ = Activation::kSilu;
};

}  // namespace forerun
