#pragma once

#include <cstdint>
#include <vector>

namespace forerun {

/// Default blocks of a target whose hidden states a network reads: `count` of them, evenly from the
/// second to the third from last, halves rounded to even.
/// Source: z-lab/dflash, build_target_layer_ids.
/// @throws std::invalid_argument  count < 1, or a target of fewer than 4 blocks where count > 1
std::vector<std::int64_t> default_feature_layers(std::int64_t target_layers, std::int64_t count);

}  // namespace forerun
