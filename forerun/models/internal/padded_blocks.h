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
  /// @param like  a tensor of the queries' device and type
  PaddedBlocks(const BlockPlaces& places, const LayerAttention& attention, const at::Tensor& like);

  /// As BlockAttention.
  at::Tensor operator()(const at::Tensor& q, const KeysValues& own,
                        const KeysValues& context) const;

 private:
  PaddedRows rows_, slots_;
  at::Tensor bias_;  // [documents, 1, padded slots, rows + padded slots]: 0 or -infinity
};

}  // namespace forerun::internal
