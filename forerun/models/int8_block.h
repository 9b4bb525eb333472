#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "forerun/models/block_config.h"
#include "forerun/models/int8_conv.h"
#include "forerun/models/int8_experts.h"
#include "forerun/models/int8_linear.h"
#include "forerun/models/int8_lora.h"
#include "forerun/models/int8_mlp.h"
#include "forerun/models/recurrent_rows.h"
#include "forerun/models/transformer_block.h"
#include "forerun/tensor/cpu/int8_matrix.h"
#include "forerun/tensor/cpu/paged_attention.h"

namespace forerun {

/// The weights of a TransformerBlock for the int8 engine.
struct Int8Block {
  RmsNorm attention_norm, mlp_norm, attention_post_norm, mlp_post_norm, q_norm, k_norm;
  /// The first product of attention (queries, keys, values, gates) or of a recurrent layer, and the
  /// last one.
  Int8Matrix qkv, output;
  bool recurrent = false;
  RecurrentValues values;  ///< of a recurrent layer
  at::Tensor steps;        ///< [2 * value_heads, hidden] float32: its products for beta and decay
  at::Tensor sinks;        ///< [heads] float32, or undefined
  Int8Mlp mlp;             // unless there are experts
  Int8Experts experts;
  Int8Conv attention_conv, mlp_conv;

  static Int8Block pack(const TransformerBlock& block, const BlockConfig& config, Arena& arena);
  /// Bytes that a pass of one row reads.
  std::int64_t bytes() const noexcept {
    const auto own = steps.defined() ? static_cast<std::int64_t>(steps.nbytes()) : 0;
    return own + qkv.bytes() + output.bytes() + mlp.bytes() + experts.bytes() +
           attention_conv.bytes() + mlp_conv.bytes();
  }
};

/// Blocks over the rows of a pass, with the memory between their phases, which grows to the largest
/// pass so far. Context rows give keys and values alone, from an input that is the same for all
/// blocks; full rows have queries and a residual stream as well. All threads of a job run every
/// method that takes a worker. A row's results do not depend on the other rows, bit for bit.
class Int8BlockPass {
 public:
  using Worker = ThreadTeam::Worker;
  struct Attention {
    double scale;    ///< of query-key products
    double softcap;  ///< 0 = none
    struct Rotary {
      std::vector<float> frequencies;  ///< [rotated / 2]
      double size = 1.0;               ///< of cosines and sines
    };
    std::vector<Rotary> ropes;
    QueryGrowth growth = {};
  };
  struct Row {
    KvPages* pages;
    std::int64_t position, place;  ///< place: of keys and values in the pages
  };
  Int8BlockPass(const BlockConfig& config, Attention attention);

  /// The rows of the next pass: `clear`, then each of them, then `start`. The sequences' rows are
  /// the full ones, in their order; convolutions see those of one sequence, alone.
  void clear();
  void add_context(const Row& row) { context_rows_.push_back(row); }
  void add_full(const Row& row) { full_rows_.push_back(row); }
  void add_sequence(const PagedAttention::Sequence& sequence) { sequences_.push_back(sequence); }
  /// Of the full rows, for recurrent layers: their sequences in their order.
  RecurrentRows& recurrent() noexcept { return recurrent_; }
  /// Full rows that meet adapters; without any a pass computes what it did.
  Int8AdaptedRows& adapted() noexcept { return adapted_; }
  /// @param scratch  floats that each thread needs besides
  void start(int threads, std::int64_t scratch = 0);

  std::int64_t context() const noexcept { return static_cast<std::int64_t>(context_rows_.size()); }
  std::int64_t full() const noexcept { return static_cast<std::int64_t>(full_rows_.size()); }
  /// The residual stream of a full row, [hidden].
  float* hidden(std::int64_t row) const noexcept { return hidden_ + row * c_.hidden; }
  /// [context + full, hidden]: of context rows for all blocks, none of which has 4-bit weights; of
  /// full rows free between blocks.
  const kernel::Int8Rows& input() const noexcept { return input_; }
  float* scratch(const Worker& w) const noexcept { return scratch_ + w.index() * scratch_size_; }
  /// Sets the rotary embedding of a row, context rows first.
  void rotate(std::int64_t row);

  static constexpr std::size_t kNoRope = static_cast<std::size_t>(-1);
  struct Layer {
    std::int64_t index = 0;
    std::int64_t in_kind = 0;  ///< among the layers with attention, or among the recurrent ones
    PagedAttention::Visibility mask;
    std::size_t rope = 0;                ///< which frequencies, or kNoRope
    const std::uint8_t* next = nullptr;  ///< what this thread reads after the block, to prefetch
  };
  /// One block over all rows.
  /// @param before  called for each full row while `hidden` is the input of the block; or null
  void run(Worker& w, const Int8Block& block, const Layer& layer,
           const std::function<void(std::int64_t row)>& before = {});

  /// A phase over some items, in runs of them.
  template <class Work>
  static void each_run(Worker& w, std::int64_t items, Work work) {
    w.each(items, std::max<std::int64_t>(1, items / (2L * w.count())), work);
  }
  /// The same, one by one.
  template <class Work>
  static void each(Worker& w, std::int64_t items, Work work) {
    each_run(w, items, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) work(i);
    });
  }

 private:
  const Row& at(std::int64_t row) const noexcept {  // context rows first
    const std::int64_t first = context();
    return row < first ? context_rows_[static_cast<std::size_t>(row)]
                       : full_rows_[static_cast<std::size_t>(row - first)];
  }
  // The inputs of the last product of a block, as it reads them.
  kernel::Int8Rows attended_of(const Int8Block& b) const noexcept {
    kernel::Int8Rows out = b.output.in_form(attended_);
    out.width = kernel::rotated_width(b.output.inputs());
    return out;
  }
  // The sublayers up to these.
  void attend(Worker& w, const Int8Block& block, const Layer& layer,
              const std::function<void(std::int64_t)>& before);
  void recur(Worker& w, const Int8Block& block, const Layer& layer,
             const std::function<void(std::int64_t)>& before);
  void project(Worker& w, const Int8Block& block, std::int64_t index);
  // Norms of whole queries and keys.
  void norm_whole(Worker& w, const Int8Block& block);
  void place(Worker& w, std::int64_t row, std::int64_t kv_head, const Int8Block& block,
             const Layer& layer);
  // Whether a sublayer's output is added to the residual stream as it is.
  bool direct(const Int8Conv& conv, const RmsNorm& post) const noexcept {
    return !post.defined() && !conv.defined() && c_.residual_scale == 1.0;
  }
  // Of the full rows, to `x`; `place` of block `index` has the result as its input.
  void norm(Worker& w, const RmsNorm& norm, const std::function<void(std::int64_t)>& before,
            std::int64_t index, Int8LoraPlace place, const kernel::Int8Rows& x);
  // The same with a convolution behind the norm.
  // @param next  what this thread reads after it, to prefetch
  void convolve(Worker& w, const RmsNorm& norm, const Int8Conv& conv,
                const std::function<void(std::int64_t)>& before, std::int64_t index,
                Int8LoraPlace place, const kernel::Int8Rows& x, const std::uint8_t* next);
  void run_mlp(Worker& w, const Int8Block& block, const Layer& layer);
  void run_experts(Worker& w, const Int8Block& block, const Layer& layer);
  // Adds `branch` to the full rows, convolved and normalised, if the network does so there.
  void add_branch(Worker& w, const Int8Conv& conv, const RmsNorm& post);

  BlockConfig c_;
  Attention shape_;
  std::int64_t width_;  // of queries, keys, values and gates of a row, or of a recurrent layer's
  PagedAttention attention_;
  Int8AdaptedRows adapted_;
  Int8ExpertRows experts_;
  RecurrentRows recurrent_;
  std::vector<Row> context_rows_, full_rows_;
  std::vector<PagedAttention::Sequence> sequences_;
  std::vector<std::int64_t> places_;  // of full rows in their sequences, if there are convolutions
  AlignedBuffer<float> hidden_room_, qkv_room_, branch_room_, gates_room_, scratch_room_,
      rotations_room_, normed_room_, deltas_room_, steps_room_;
  Int8Activations input_room_, attended_room_, gated_room_;
  // Of the current pass.
  float *hidden_ = nullptr, *qkv_ = nullptr, *branch_ = nullptr, *scratch_ = nullptr;
  float* rotations_ = nullptr;                   // [frequencies, cos and sin, rows, rotated / 2]
  float *normed_ = nullptr, *deltas_ = nullptr;  // for convolutions
  float* steps_ = nullptr;                       // [rows, 2, value_heads]
  std::int64_t scratch_size_ = 0;
  kernel::Int8Rows input_{}, attended_{};
  Int8Mlp::Gated gated_{};
};

}  // namespace forerun
