#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "forerun/core/token.h"
#include "forerun/tensor/cpu/int8_matrix.h"
#include "forerun/tensor/precision.h"

namespace forerun {

/// What the token before a slot adds to the slot's logits: w1[previous] w2^T, of low rank. It
/// restores what slots that are predicted in one pass do not know of each other. A gated head
/// multiplies w1[previous] by sigmoid(state + gate w1[previous]), with a state of the slot.
/// Source: DSpark, arXiv:2607.05147.
class MarkovHead {
 public:
  /// @param w1         [tokens, rank], of the token before; undefined: no head
  /// @param w2         [vocab, rank], of the token predicted
  /// @param precision  kInt8 keeps w2 in int8 for additions to whole rows; for those to some ids it
  ///                   stays as it is, in half the memory if bf16 holds it exactly, as files do
  /// @param gate       [rank, rank]; undefined: not gated
  MarkovHead(const at::Tensor& w1, const at::Tensor& w2, Precision precision,
             const at::Tensor& gate = {});

  bool defined() const noexcept { return w1_.defined(); }
  /// [rank]: w1's row of a token.
  std::span<const float> before(Token previous) const;

  /// Runs on the calling thread alone, as a thread pool of its own beside the engine's would take
  /// the cores from the next pass.
  /// @param logits  [vocab] float32, added to
  /// @param state   [rank] float32, of the slot; not read if the head is not gated
  void add(Token previous, std::span<float> logits, std::span<const float> state = {}) const;
  /// The same for some ids, in float32.
  /// @param add  [ids] float32, added to
  void add(Token previous, std::span<const std::int32_t> ids, std::span<float> add,
           std::span<const float> state = {}) const;

 private:
  // w1's row, gated if the head is; valid until the thread's next call.
  std::span<const float> row(Token previous, std::span<const float> state) const;

  at::Tensor w1_, w2_, gate_;  // float32, contiguous; w2 perhaps bf16
  Int8Matrix int8_;
};

}  // namespace forerun
