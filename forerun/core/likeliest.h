#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// The tokens of the largest weights, by falling weight; the lowest id first among equals.
/// @param weights  [vocab] float32; NaN and -inf are left out
/// @param n        tokens at most
std::vector<Token> likeliest(std::span<const float> weights, std::size_t n);

}  // namespace forerun
