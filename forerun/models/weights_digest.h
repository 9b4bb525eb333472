#pragma once

#include <span>
#include <string>

#include "forerun/models/model_weight.h"

namespace forerun {

/// A hash of a model's weights. Weights are hashed in bf16, as they are saved: a model trained in
/// float32 and its saved copy have the same hash. It begins with "xxh3:"; digests in files of
/// earlier versions have no such prefix.
std::string digest_of(std::span<const ModelWeight> weights);

}  // namespace forerun
