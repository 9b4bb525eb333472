#pragma once

#include <algorithm>
#include <cstddef>

#include "forerun/core/sequence.h"

namespace forerun {

/// How many tokens to draft for a sequence: `most`, but never one that could not be emitted (the
/// round's last output is the target's own).
inline std::size_t draft_budget(const TokenSequence& sequence, std::size_t most) {
  return sequence.remaining() == 0 ? 0 : std::min(most, sequence.remaining() - 1);
}

/// How many steps, or tokens, of an image, likewise.
template <class Sample>
std::size_t draft_budget(const Sample& sequence, std::size_t most) {
  return sequence.done() ? 0 : std::min(most, sequence.steps() - sequence.step() - 1);
}

}  // namespace forerun
