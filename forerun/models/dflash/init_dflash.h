#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/dflash/dflash.h"
#include "forerun/models/dflash/dflash_file.h"

namespace forerun {

/// A network with the block sizes of a target: full attention, a learned mask vector, features by
/// the default rule, the whole vocabulary.
DFlashConfig dflash_config_for(const DecoderConfig& target, std::int64_t layers,
                               std::int64_t features, std::int64_t block);

/// Matrices N(0, 0.02), norms one, the mask vector the mean row of the embedding, heads that start
/// without effect (markov_w2, the codebook of candidates and the confidence head zero),
/// convolutions that change nothing. float32, on the CPU.
/// @param draft_to_target  [config.draft_vocab] int64, rising; undefined: every token
/// Source of the numbers: NVIDIA/Model-Optimizer's, NeMo-Automodel's and speculators' trainers.
/// @throws std::invalid_argument  sizes other than the target's, or a map that does not match
DFlash random_dflash(const DFlashConfig& config, const DFlashTarget& target, std::uint64_t seed,
                     const at::Tensor& draft_to_target = {});

/// Adds convolutions that change nothing, over two slots in groups of 16 channels, to a network
/// without any.
/// @throws std::invalid_argument  a hidden size that is not a multiple of 16
/// Source: DFlash 2, z-lab/dflash; NeMo-Automodel's initial weights.
void add_convolutions(DFlash& model);

/// As random_dflash, but the layers are initialised from the target's last blocks, so that keys and
/// values of the context equal the target's at first. fc passes on the feature that enters the
/// first of them (or the nearest before it), with N(0, 0.02 / sqrt(features * hidden)) elsewhere.
/// One norm weight serves the context and every layer; the columns of q, k and v absorb the
/// differences of the target's norms. Norms of queries and keys are initialised to the typical RMS
/// of the target's (or to its own norms, if it has them).
/// @param features  [n, features * hidden] float32 of typical text, for that RMS
/// @throws std::invalid_argument  as random_dflash; a packed (int8) target, a Gemma one, or blocks
/// of other sizes than the config's
DFlash dflash_from_target(const DecoderLm& target, const DFlashConfig& config,
                          const at::Tensor& features, std::uint64_t seed,
                          const at::Tensor& draft_to_target = {});

}  // namespace forerun
