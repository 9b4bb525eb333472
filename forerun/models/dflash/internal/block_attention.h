#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "forerun/models/dflash/dflash_config.h"
#include "forerun/models/dflash/internal/layer.h"

namespace forerun::internal {

/// Where the blocks of a batch stand: what attention needs to know of it.
struct BlockPlaces {
  std::int64_t block;                 ///< slots of each
  std::vector<std::int64_t> lengths;  ///< rows of each document
  std::vector<at::Tensor> anchors;    ///< of each document: [blocks] int64 positions
};

/// Attention of the slots of many blocks: each over its document's rows before its anchor and over
/// its own block, in one softmax. Query heads that share a key head are grouped, never expanded.
/// @param q        [blocks * block, heads, head_dim], documents one behind the other
/// @param own      likewise, kv_heads
/// @param context  [sum of lengths, kv_heads, head_dim]
/// @return         [blocks * block, heads * head_dim]
at::Tensor attend_blocks(const BlockPlaces& places, const LayerAttention& attention,
                         const at::Tensor& q, const KeysValues& own, const KeysValues& context);

}  // namespace forerun::internal
