#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "forerun/models/internal/block_attention.h"
#include "forerun/models/internal/padded_rows.h"

namespace forerun::internal {

/// BlockAttention as one call of masked attention over documents of equal length: for devices other
/// than the CPU. Scores that no slot sees are computed too.
class PaddedBlocks {
 public:
  /// @param like   a tensor of the queries' device and type
  /// @param group  query heads that share a key head
  PaddedBlocks(const BlockPlaces& places, const LayerAttention& attention, const at::Tensor& like,
               std::int64_t group);

  /// As BlockAttention.
  at::Tensor operator()(const at::Tensor& q, const KeysValues& own,
                        const KeysValues& context) const;

 private:
  PaddedRows rows_, slots_;
  // [documents, 1, group * padded slots, padded rows + padded slots]: 0 or -infinity
  at::Tensor bias_;
};

}  // namespace forerun::internal
