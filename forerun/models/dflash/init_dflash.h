#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/dflash/dflash.h"

namespace forerun {

/// A network of random weights: matrices N(0, 0.02), norms 1, the mask vector the mean embedding,
/// the Markov head without effect. Embedding and head are the target's.
/// @param target           float32 tensors
/// @param config           sizes, draft_vocab, feature_layers, ...; hidden and vocab as the
/// target's
/// @param draft_to_target  [draft_vocab] int64, rising; undefined: every token
DFlash random_dflash(const DecoderLm& target, const DFlashConfig& config,
                     const at::Tensor& draft_to_target, std::uint64_t seed);

/// A network that begins as the target's last blocks. fc hands on the feature that is closest to
/// what the first of these blocks reads, so that the keys and values of the context begin as the
/// target's own, up to the norms of queries and keys, which the target may lack: they begin at the
/// typical size of its queries and keys.
/// @param config    of the target's attention and MLP shape
/// @param features  [n, features * hidden] float32: some of the target's states, to measure on
/// @throws std::invalid_argument  shapes other than the target's, fewer target blocks than layers
DFlash dflash_from_target(const DecoderLm& target, const DFlashConfig& config,
                          const at::Tensor& draft_to_target, const at::Tensor& features,
                          std::uint64_t seed);

}  // namespace forerun
