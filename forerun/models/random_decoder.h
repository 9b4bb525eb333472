#pragma once

#include <cstdint>

#include "forerun/models/decoder_lm.h"

namespace forerun {

/// A decoder to be trained from nothing, float32: matrices N(0, 0.02), those whose output is added
/// to the residual stream by 1 / sqrt(2 layers) smaller, norms one, biases (Qwen2's) zero.
/// Source of the numbers: GPT-2 (Radford et al. 2019, section 2.3).
DecoderLm random_decoder(const DecoderConfig& config, std::uint64_t seed);

}  // namespace forerun
