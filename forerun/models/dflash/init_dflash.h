#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/dflash/dflash.h"
#include "forerun/models/dflash/dflash_file.h"

namespace forerun {

/// A network of a target's own block sizes: full attention, a learned mask vector, features by the
/// default rule, the whole vocabulary.
DFlashConfig dflash_config_for(const DecoderConfig& target, std::int64_t layers,
                               std::int64_t features, std::int64_t block);

/// Matrices N(0, 0.02), norms one, the mask vector the mean row of the embedding, heads that begin
/// without effect (markov_w2 and the confidence head zero). float32, on the CPU.
/// @param draft_to_target  [config.draft_vocab] int64, rising; undefined: every token
/// Source of the numbers: NVIDIA/Model-Optimizer's and speculators' trainers.
/// @throws std::invalid_argument  sizes other than the target's, or a map that does not fit
DFlash random_dflash(const DFlashConfig& config, const DFlashTarget& target, std::uint64_t seed,
                     const at::Tensor& draft_to_target = {});

/// As random_dflash, but the layers begin as the target's last blocks, so that keys and values of
/// the context begin as the target's own. fc passes on the feature that enters the first of them
/// (or the nearest before it), with N(0, 0.02 / sqrt(features * hidden)) elsewhere. One norm weight
/// serves the context and every layer; what the target's norms differ by goes into the columns of
/// q, k and v. Norms of queries and keys begin as the typical RMS of the target's (or as its own
/// norms, where it has them).
/// @param features  [n, features * hidden] float32 of typical text, for that RMS
/// @throws std::invalid_argument  as random_dflash; a packed (int8) target, a Gemma one, or blocks
/// of other sizes than the config's
DFlash dflash_from_target(const DecoderLm& target, const DFlashConfig& config,
                          const at::Tensor& features, std::uint64_t seed,
                          const at::Tensor& draft_to_target = {});

}  // namespace forerun
