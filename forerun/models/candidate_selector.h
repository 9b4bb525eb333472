#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// Chooses among the likeliest tokens of a slot given the token before it: the score of candidate b
/// after token a is the slot's logit plus <A[a] * (H g), B[b]>, where g is the slot's output. Only
/// the largest logits are candidates.
/// Source: DFlash 2, z-lab/dflash, CandidateSelector.
class CandidateSelector {
 public:
  /// @param predecessors  A, [tokens, rank], of the token before; undefined: no selector
  /// @param successors    B, [vocab, rank], of the candidates
  /// @param top_k         candidates of a slot
  CandidateSelector(const at::Tensor& predecessors, const at::Tensor& successors,
                    std::int64_t top_k);

  bool defined() const noexcept { return predecessors_.defined(); }
  /// Ids of the largest logits of a slot, rising; of equal ones the first. None if too few of the
  /// logits are finite.
  /// @param logits  [vocab] float32
  std::vector<std::int32_t> candidates(std::span<const float> logits) const;
  /// Adds <A[previous] * state, B[id]> to the logits of some ids.
  /// @param state  [rank] float32: H g of the slot
  /// @param add    [ids] float32, added to
  void add(Token previous, std::span<const float> state, std::span<const std::int32_t> ids,
           std::span<float> add) const;
  /// The same in a whole row; what is no candidate gets -infinity. A row without candidates stays.
  /// @param logits  [vocab] float32
  void select(Token previous, std::span<const float> state, std::span<float> logits) const;

 private:
  at::Tensor predecessors_, successors_;  // float32, contiguous
  std::size_t top_k_;
};

}  // namespace forerun
