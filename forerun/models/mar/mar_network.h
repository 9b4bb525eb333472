#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/models/mar/head_matrix.h"
#include "forerun/models/mar/mar.h"
#include "forerun/models/mar/mar_cache.h"
#include "forerun/models/mar/packed_block.h"
#include "forerun/tensor/cpu/rows/row_matrix.h"

namespace forerun {

/// What the products of the head's states are computed in: most of the work of sampling.
enum class HeadPrecision : std::uint8_t {
  kF32,
  kBF16,  ///< states and weights are rounded to bf16, sums are float32; everything else as kF32
};

/// A network packed for sampling on the CPU. Every row's bits depend on that row's own
/// inputs alone: not on other rows of a call, on how rows are divided into calls, nor on the number
/// of threads (that of ATen). Constant after construction, so threads may share it.
class MarNetwork {
 public:
  /// @throws std::invalid_argument  a width that is no multiple of 16; bf16 on a processor without
  /// AVX2
  explicit MarNetwork(const Mar& model, HeadPrecision precision = HeadPrecision::kF32);

  const MarConfig& config() const noexcept { return config_; }

  /// An empty cache. Causal form.
  /// @param label  below `classes`, or `classes` for none
  /// @throws std::invalid_argument  another label
  MarCache cache(std::int64_t label) const;

  /// New tokens of one image, after those in its cache.
  struct Rows {
    MarCache* cache;
    std::span<const float> tokens;  ///< [n, dim]
  };
  /// The conditions of the tokens after those that were known. An empty cache takes the class's row
  /// first, which gives the condition of token 0. The cache then keeps the new rows.
  /// @return  [rows, condition_width()], image after image: n rows each, n + 1 of an empty cache
  /// @throws std::invalid_argument  tokens that are not whole, or no token left to be asked for
  std::vector<float> conditions(std::span<const Rows> images) const;

  /// What the head knows of a token's context: its own first layer of the backbone's output.
  std::int64_t condition_width() const noexcept { return config_.head_width; }
  /// The same of the outputs of a backbone that ran elsewhere, the masked form's.
  /// @param outputs  [rows, hidden]
  std::vector<float> conditions_of(std::span<const float> outputs) const;

 private:
  friend class MarHead;
  struct HeadBlock {
    std::vector<float> norm_weight, norm_bias;
    HeadMatrix in, out;
  };
  struct Pass;

  void pack_backbone(const Mar& model);
  void pack_head(const Mar& model);
  template <class Each>
  void run_rows(Pass& pass, const Each& each) const;

  MarConfig config_;
  HeadPrecision precision_;
  // Backbone of the causal form.
  RowMatrix input_;
  std::vector<float> input_weight_, input_bias_, norm_weight_, norm_bias_;  // of norms
  std::vector<float> places_, asked_, labels_, head_places_;                // tables
  std::vector<PackedBlock> blocks_;
  // Head.
  RowMatrix condition_, head_input_, modulation_, time_modulation_;
  HeadMatrix output_;
  std::vector<HeadBlock> head_blocks_;
  MarHeadWeights head_weights_;  // for the embedding of times
};

}  // namespace forerun
