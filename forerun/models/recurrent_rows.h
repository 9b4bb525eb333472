#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "forerun/models/block_config.h"
#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/norm.h"
#include "forerun/tensor/recurrent_state.h"

namespace forerun {

/// The parameters of a recurrent layer besides its matrices, float32.
struct RecurrentValues {
  at::Tensor conv;       ///< [taps, channels]
  at::Tensor conv_bias;  ///< [channels], or undefined
  at::Tensor rates;      ///< [value_heads]: of decay, positive
  at::Tensor time_bias;  ///< [value_heads]
  RmsNorm norm;          ///< [value_dim], of a head's outputs
};

/// The shape of the state of `layers` such layers.
RecurrentState::Shape state_shape(const BlockConfig& config, std::int64_t layers);

/// What the recurrent layers of a pass do between their matrix products. Each phase is a number of
/// items, which any threads may take; all items of one come before those of the next. A row's
/// results depend on the rows before it alone, bit for bit.
/// Source: transformers' modeling_lfm2.py and modeling_qwen3_5.py.
class RecurrentRows {
 public:
  explicit RecurrentRows(const BlockConfig& config) : c_(config), r_(config.recurrent) {}

  /// The sequences of the next pass: `clear`, then each of them, then `start`.
  void clear();
  /// @param plan  without groups and skips; both outlive the pass
  void add_sequence(RecurrentState* state, const RowPlan* plan);
  /// @param workers  threads
  void start(std::int64_t workers);
  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(rows_.size()); }

  struct Layer {
    const RecurrentValues* values;
    std::int64_t index;  ///< among the recurrent layers
    /// [rows, stride], first columns. kShortConv: input gates, output gates, values. kGatedDelta:
    /// queries, keys and values, then gates of outputs.
    const float* products;
    std::int64_t stride;
    /// [rows, 2, value_heads]: products for beta and for decay, of kGatedDelta.
    const float* steps;
  };
  /// Phase 1: the convolution, with what is needed of its outputs.
  std::int64_t convolve_items() const noexcept { return rows() * parts(); }
  void convolve(const Layer& layer, std::int64_t item);
  /// Phase 2, of kGatedDelta alone: the matrices along the rows of a sequence.
  std::int64_t carry_items() const noexcept {
    return static_cast<std::int64_t>(sequences_.size()) * r_.value_heads;
  }
  void carry(const Layer& layer, std::int64_t item, std::int64_t worker);
  /// Phase 3, two kinds of items: a row's outputs [recurrent_outputs()], ...
  void output(const Layer& layer, std::int64_t row, float* out) const;
  /// ... and the state of a sequence.
  std::int64_t sequences() const noexcept { return static_cast<std::int64_t>(sequences_.size()); }
  void close(const Layer& layer, std::int64_t sequence);

 private:
  static constexpr std::int64_t kPart = 256;  // channels of an item of kShortConv
  struct Sequence {
    RecurrentState* state;
    const RowPlan* plan;
    std::int64_t first;  // of its rows
  };
  struct Row {
    std::size_t sequence;
    std::int64_t index;  // of the sequence's rows
  };
  bool delta() const noexcept { return r_.kind == RecurrentConfig::Kind::kGatedDelta; }
  std::int64_t parts() const noexcept {
    return delta() ? 2 * r_.key_heads + r_.value_heads : (c_.hidden + kPart - 1) / kPart;
  }
  // Inputs of the convolution of a row of the pass, [n] from channel `first` on; `room` may hold
  // them.
  const float* inputs(const Layer& layer, std::int64_t row, std::int64_t first, std::int64_t n,
                      float* room) const;
  // Of the row that comes `back` before another one, which may be before the pass.
  const float* inputs_before(const Layer& layer, const Row& row, std::int64_t back,
                             std::int64_t first, std::int64_t n, float* room) const;
  void convolve_channels(const Layer& layer, const Row& row, std::int64_t first, std::int64_t n,
                         float* out) const;
  void set_step(const Layer& layer, std::int64_t row, std::int64_t value_head);
  // The value head's part of a row of the pass.
  RecurrentState::Row own(std::int64_t row, std::int64_t value_head) noexcept;
  class Walk;

  float* mixed(std::int64_t row) noexcept { return mixed_.data() + row * c_.conv_channels(); }
  const float* mixed(std::int64_t row) const noexcept {
    return mixed_.data() + row * c_.conv_channels();
  }

  BlockConfig c_;
  RecurrentConfig r_;
  std::vector<Sequence> sequences_;
  std::vector<Row> rows_;
  // Of the current pass and layer. `mixed`: outputs of the convolution, of kGatedDelta queries,
  // keys and values, in whose place outputs come.
  AlignedBuffer<float> mixed_, deltas_, betas_, decays_;
  AlignedBuffer<float> matrices_, reads_;  // of each thread
};

}  // namespace forerun
