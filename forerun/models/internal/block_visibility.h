#pragma once

#include <algorithm>
#include <cstdint>

#include "forerun/models/layer_attention.h"
#include "forerun/tensor/joint_softmax.h"

namespace forerun::internal {

/// Which rows of its document a slot sees.
inline Visible rows_before(std::int64_t anchor, std::int64_t slot,
                           const LayerAttention& attention) {
  // Strictly before: when a block is decoded, its anchor has no row yet.
  const std::int64_t first =
      attention.window > 0 ? std::max<std::int64_t>(0, anchor + slot - attention.window + 1) : 0;
  return {static_cast<std::int32_t>(std::min(first, anchor)), static_cast<std::int32_t>(anchor)};
}

/// Which slots of its block a slot sees.
inline Visible slots_of_block(std::int64_t slot, std::int64_t block,
                              const LayerAttention& attention) {
  const std::int64_t reach = attention.window > 0 ? attention.window : block;
  const std::int64_t end = attention.causal ? slot + 1 : std::min(block, slot + reach);
  return {static_cast<std::int32_t>(std::max<std::int64_t>(0, slot - reach + 1)),
          static_cast<std::int32_t>(end)};
}

}  // namespace forerun::internal
