#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/models/mar/mar_config.h"

namespace forerun {

/// Tokens of an image in the network's order, by its mean and scale, without noise.
/// @param pixels  [channels, side, side] in [-1, 1], or latents
/// @return        [tokens, dim]; a token's coordinates are channel, row, column of its patch
/// @throws std::invalid_argument  another number of values
std::vector<float> mar_tokens(const MarConfig& config, std::span<const float> pixels);

/// The other way.
/// @param tokens  [tokens, dim], or the first tokens of an image; the rest of it is -1
/// @return        [channels, side, side]; not held within [-1, 1]
/// @throws std::invalid_argument  more tokens than an image has, or a part of one
std::vector<float> mar_image(const MarConfig& config, std::span<const float> tokens);

}  // namespace forerun
