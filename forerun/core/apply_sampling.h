#pragma once

#include <span>

#include "forerun/core/categorical.h"
#include "forerun/core/sampling_params.h"

namespace forerun {

/// The law of the next token from [vocab] float32 logits, which are modified in place (forbidden
/// tokens become -inf) and must outlive the result.
/// @throws std::invalid_argument  logits hold NaN or no finite value; parameters as in `check`
TokenLaw apply_sampling_(std::span<float> logits, const SamplingParams& sampling);

}  // namespace forerun
