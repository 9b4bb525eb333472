#pragma once

#include <cstddef>

#include "forerun/engine/event.h"
#include "forerun/methods/text/verified_tokens.h"

namespace forerun {

/// One text of a round.
RoundTrace trace_of(const TextRound& round, std::size_t index);

}  // namespace forerun
