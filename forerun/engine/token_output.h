#pragma once

#include <cstddef>
#include <span>

#include "forerun/engine/event.h"

namespace forerun {

/// An output with its log-probability.
/// @param logits  [vocab] of the output's position, before sampling parameters
/// @param count   number of the likeliest tokens to report
TokenOutput token_output(RequestId id, Token token, std::span<const float> logits,
                         std::size_t count);

}  // namespace forerun
