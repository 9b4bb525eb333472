#pragma once

#include <span>
#include <string>

#include "forerun/models/model_weight.h"

namespace forerun {

/// A hash that differs for models with other weights. Weights count as they are saved, in
/// bf16: what was trained in float32 and what was loaded again are one model.
std::string digest_of(std::span<const ModelWeight> weights);

}  // namespace forerun
