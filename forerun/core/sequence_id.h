#pragma once

#include <cstdint>

namespace forerun {

/// Tells the sequences of a process apart while they live, whatever seed and request they have.
using SequenceId = std::uint64_t;

}  // namespace forerun
