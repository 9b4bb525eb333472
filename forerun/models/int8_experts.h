#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forerun/models/block_config.h"
#include "forerun/models/int8_mlp.h"
#include "forerun/models/transformer_block.h"
#include "forerun/tensor/cpu/aligned_buffer.h"

namespace forerun {

/// The experts of a layer in int8 or 4 bits, each an MLP, and the router, in float32.
class Int8Experts {
 public:
  Int8Experts() = default;
  /// Of a block without experts: not defined.
  static Int8Experts pack(const TransformerBlock& block, const BlockConfig& config, Arena& arena);

  bool defined() const noexcept { return !mlps_.empty(); }
  /// Bytes that a pass of one row reads.
  std::int64_t bytes() const noexcept;
  const Int8Mlp& mlp(std::int64_t expert) const noexcept {
    return mlps_[static_cast<std::size_t>(expert)];
  }
  /// Of the logits, [experts], or empty.
  std::span<const float> bias() const noexcept { return bias_; }
  /// [hidden], what the logit of an expert is the product with
  const float* router(std::int64_t expert) const noexcept {
    return router_.get() + expert * hidden_;
  }

 private:
  std::vector<Int8Mlp> mlps_;
  std::int64_t hidden_ = 0, used_ = 0;
  std::shared_ptr<float[]> router_;  // [experts, hidden]
  std::vector<float> bias_;          // of the router, [experts]; or none
};

/// What the rows of a pass compute with a layer's experts, and the memory for it, which grows to
/// the largest pass so far. Every expert multiplies the rows that use it as one matrix; a row's
/// results do not depend on the others, bit for bit. A row uses the experts of the largest logits,
/// of equal ones the first; their outputs are added in that order.
class Int8ExpertRows {
 public:
  using Worker = ThreadTeam::Worker;
  explicit Int8ExpertRows(const BlockConfig& config) : c_(config) {}

  /// For the passes of `rows` rows that follow.
  void start(std::int64_t rows);

  struct Input {
    std::int64_t rows = 0;
    float* normed = nullptr;             ///< [hidden] of row 0, ...: the output of the norm
    kernel::Int8Rows x;                  ///< the same as int8, in the form of the first expert
    float* scratch = nullptr;            ///< of this thread
    const std::uint8_t* next = nullptr;  ///< what this thread reads after it, to prefetch; or null
  };
  /// All threads of a job run it. Then `add_up` gives the output of each row.
  void run(Worker& worker, const Int8Experts& experts, const Input& in);
  /// [hidden]: the sum over the row's experts. Once for each row after a `run`.
  const float* add_up(std::int64_t row);
  /// Memory for the output of the norm: [rows, hidden].
  float* normed() const noexcept { return normed_; }

 private:
  void choose(const Int8Experts& experts, std::int64_t row);
  void place(std::int64_t rows);
  void copy_row(const Int8Experts& experts, const Input& in, std::int64_t slot);
  Int8Mlp::Pass pass_of(const Int8Experts& experts, std::int64_t active, const Input& in) const;

  BlockConfig c_;
  AlignedBuffer<float> normed_room_, logits_room_, gates_room_, out_room_;
  Int8Activations x_room_, gated_room_;
  float *normed_ = nullptr, *logits_ = nullptr, *out_ = nullptr;
  kernel::Int8Rows x_{};  // of the slots
  Int8Mlp::Gated gated_{};
  // A slot is one row of one expert; those of an expert follow each other.
  std::vector<std::int32_t> chosen_, slots_;      // [rows, experts_used]: the expert, the slot
  std::vector<float> shares_;                     // of the same
  std::vector<std::int32_t> row_of_, expert_of_;  // [slots]
  struct Active {
    std::int32_t expert, first, rows;  // its slots
  };
  std::vector<Active> active_;
  std::vector<std::int32_t> begins_;  // [experts + 1]
};

}  // namespace forerun
