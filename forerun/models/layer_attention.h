#pragma once

#include <cstdint>

namespace forerun {

/// Attention mask of the slots of a block in one layer. Every slot sees the context before the
/// block, and in its own block all slots, or those up to itself.
struct LayerAttention {
  std::int64_t window = 0;  ///< a position is seen iff its distance is below this; 0 = any
  bool causal = false;      ///< inside the block

  bool operator==(const LayerAttention&) const = default;
};

}  // namespace forerun
