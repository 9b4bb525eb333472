#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/medusa/medusa.h"

namespace forerun {

/// Heads to train, float32: the product with the vocabulary is the closest one of the config's
/// width to that of the target (its largest singular values), the Markov head adds nothing, all
/// else is random. Logits begin small: the first laws are near the uniform one.
/// @param target           with embedding, last norm and head as numbers
/// @param draft_to_target  [draft_vocab] int64, rising; undefined: every token
/// @throws std::invalid_argument  sizes that do not match
Medusa medusa_from_target(const MedusaConfig& config, const DecoderLm& target, std::uint64_t seed,
                          const at::Tensor& draft_to_target);

}  // namespace forerun
