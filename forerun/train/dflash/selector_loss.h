#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "forerun/models/dflash/dflash.h"
#include "forerun/tensor/mixed_cross_entropy.h"

namespace forerun {

/// The loss of a selector, and what it drafts.
struct SelectorLoss {
  at::Tensor loss;     ///< []: sum of weight * loss; has a gradient by logits and hidden
  at::Tensor overlap;  ///< [rows]: sum over candidates of min(covered * law, softmax), no gradient
  at::Tensor best;     ///< [rows] int64: the best candidate
};

/// Cross-entropy of the softmax over a slot's candidates, given the true token before, with the
/// token that came and with the target's law over the candidates, mixed as in the other loss. Where
/// the token is no candidate it stands in for the weakest one, in the loss alone.
/// Source: vllm-project/speculators, selector_training_candidates; the law's share is ours.
/// @param logits    [rows, draft_vocab], of block_logits
/// @param hidden    [rows, hidden]
/// @param previous  [rows] int64, ids of the target's vocabulary
SelectorLoss selector_loss(const DFlash& model, const at::Tensor& logits, const at::Tensor& hidden,
                           const at::Tensor& previous, const MixedTargets& targets);

}  // namespace forerun
