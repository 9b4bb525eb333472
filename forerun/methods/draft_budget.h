#pragma once

#include <algorithm>
#include <cstddef>

#include "forerun/core/lane.h"
#include "forerun/core/latent.h"

namespace forerun {

/// How many tokens to draft for a lane: `most`, but never one that could not be emitted (the
/// round's last output is the target's own).
inline std::size_t draft_budget(const TokenLane& lane, std::size_t most) {
  return lane.remaining() == 0 ? 0 : std::min(most, lane.remaining() - 1);
}

/// How many steps of an image, likewise.
inline std::size_t draft_budget(const LatentLane& lane, std::size_t most) {
  return lane.done() ? 0 : std::min(most, lane.steps() - lane.step() - 1);
}

}  // namespace forerun
