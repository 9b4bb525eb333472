#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forerun/models/block_config.h"
#include "forerun/models/int8_mlp.h"
#include "forerun/models/internal/expert_choice.h"
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
  /// What all rows use besides, or null.
  const Int8Mlp* shared() const noexcept { return shared_ ? &*shared_ : nullptr; }
  /// Of the experts, and behind them of the gate of the shared one, if it has one.
  std::int64_t logits() const noexcept { return logits_; }
  /// Of the experts' logits, [experts], or empty.
  std::span<const float> bias() const noexcept { return bias_; }
  /// What is added to their scores where they are chosen, [experts], or empty.
  std::span<const float> correction() const noexcept { return correction_; }
  /// [hidden], what a logit is the product with
  const float* router(std::int64_t logit) const noexcept { return router_.get() + logit * hidden_; }

 private:
  std::vector<Int8Mlp> mlps_;
  std::optional<Int8Mlp> shared_;
  std::int64_t hidden_ = 0, used_ = 0, logits_ = 0;
  std::shared_ptr<float[]> router_;       // [logits, hidden]
  std::vector<float> bias_, correction_;  // [experts]; or none
};

/// What the rows of a pass compute with a layer's experts, and the memory for it, which grows to
/// the largest pass so far. Every expert multiplies the rows that use it as one matrix; a row's
/// results do not depend on the others, bit for bit. A row uses the experts of the largest scores,
/// of equal ones the first; their outputs are added in that order, that of the shared one last.
class Int8ExpertRows {
 public:
  using Worker = ThreadTeam::Worker;
  explicit Int8ExpertRows(const BlockConfig& config) : c_(config), choice_(config) {}

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
  // The last phase.
  // @param beside  of the shared MLP
  void down(Worker& worker, const Int8Experts& experts, const Input& in,
            const Int8Mlp::Pass& beside);
  void copy_row(const Int8Experts& experts, const Input& in, std::int64_t slot);
  Int8Mlp::Pass pass_of(const Int8Experts& experts, std::int64_t active, const Input& in) const;
  Int8Mlp::Pass shared_pass(const Int8Experts& experts, const Input& in) const;

  BlockConfig c_;
  internal::ExpertChoice choice_;
  AlignedBuffer<float> normed_room_, logits_room_, gates_room_, out_room_;
  AlignedBuffer<float> shared_gates_room_, shared_out_room_;
  Int8Activations x_room_, gated_room_, shared_x_room_, shared_gated_room_;
  float *normed_ = nullptr, *logits_ = nullptr, *out_ = nullptr;
  kernel::Int8Rows x_{};  // of the slots
  Int8Mlp::Gated gated_{};
  kernel::Int8Rows shared_x_{};  // of the rows, where it has another form than that of experts
  Int8Mlp::Gated shared_gated_{};
  float* shared_out_ = nullptr;      // [rows, hidden]
  std::vector<float> shared_share_;  // [rows]; none: 1
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
