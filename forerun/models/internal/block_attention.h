#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "forerun/models/layer_attention.h"
#include "forerun/models/transformer_block.h"

namespace forerun::internal {

/// Positions of the blocks of a batch, documents concatenated.
struct BlockPlaces {
  std::int64_t block = 0;                          ///< slots of each
  std::int64_t first_slot = 0;                     ///< position of the first one after the anchor
  std::vector<std::int64_t> lengths;               ///< rows of each document
  std::vector<std::vector<std::int64_t>> anchors;  ///< of each document: positions
};

/// Attention of the slots of many blocks: each over its document's rows before its anchor and over
/// its own block, in one softmax. Query heads that share a key head are grouped, never expanded.
/// Differentiable in queries, keys and values.
class BlockAttention {
 public:
  BlockAttention(const BlockPlaces& places, const LayerAttention& attention);

  /// @param q        [blocks * block, heads, head_dim]
  /// @param own      [blocks * block, kv_heads, head_dim]
  /// @param context  [sum of lengths, kv_heads, head_dim]
  /// @return         [blocks * block, heads * head_dim]
  at::Tensor operator()(const at::Tensor& q, const KeysValues& own,
                        const KeysValues& context) const;

  struct Plan;

 private:
  std::shared_ptr<const Plan> plan_;
};

}  // namespace forerun::internal
