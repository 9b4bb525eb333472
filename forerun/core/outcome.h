#pragma once

#include <cstdint>

namespace forerun {

/// Where the seconds of one round, or of a run, were spent.
struct Timings {
  double drafter = 0.0;
  double target = 0.0;
  double rest = 0.0;  ///< couplings, bookkeeping, observers

  double total() const noexcept { return drafter + target + rest; }
};

/// Result of one round for one sequence.
struct Outcome {
  std::uint32_t drafted = 0;   ///< drafts proposed
  std::uint32_t examined = 0;  ///< drafts the rule examined: none after the first rejection
  std::uint32_t accepted = 0;  ///< drafts kept
  std::uint32_t emitted = 0;   ///< outputs: accepted drafts, and the corrected or bonus one
};

}  // namespace forerun
