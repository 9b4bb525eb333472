#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "forerun/core/token.h"

namespace forerun {

/// What the token before a slot adds to the slot's logits: w1[previous] w2^T, of low rank. It
/// restores what slots that are predicted in one pass do not know of each other.
/// Source: DSpark, arXiv:2607.05147.
struct MarkovHead {
  at::Tensor w1;  ///< [tokens, rank] float32, contiguous, of the token before; undefined: no head
  at::Tensor w2;  ///< [vocab, rank] float32, contiguous, of the token predicted

  /// @param logits  [vocab] float32, added to
  void add(Token previous, std::span<float> logits) const;
  /// The same for some ids.
  /// @param add  [ids] float32, added to
  void add(Token previous, std::span<const std::int32_t> ids, std::span<float> add) const;
};

}  // namespace forerun
