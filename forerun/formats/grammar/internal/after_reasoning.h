#pragma once

#include <string>

#include "forerun/core/reasoning.h"

namespace forerun::internal {

/// A grammar with reasoning before it. Space follows the reasoning as models write it, of bounded
/// length.
/// @param ebnf  begins with its rule root
/// @param free  the texts are any: the reasoning need not end; not of ReasoningStart::kChannels
std::string after_reasoning(const std::string& ebnf, ReasoningStart reasoning, bool free = false);

}  // namespace forerun::internal
