#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace forerun {

/// Where the seconds of one round, or of a run, were spent.
struct Timings {
  double drafter = 0.0;
  double target = 0.0;
  double rest = 0.0;  ///< couplings, bookkeeping, observers

  double total() const noexcept { return drafter + target + rest; }
};

/// Result of one round for one sequence. Of a tree of drafts, `examined` and `accepted` count along
/// the path that the outputs take.
struct Outcome {
  std::uint32_t drafted = 0;   ///< drafts proposed
  std::uint32_t examined = 0;  ///< drafts kept, and the one rejected after them
  std::uint32_t accepted = 0;  ///< drafts kept
  std::uint32_t emitted = 0;   ///< outputs: accepted drafts, and the corrected or bonus one
  std::vector<std::int32_t> path = {};  ///< of a tree: the accepted drafts

  /// The conditional, of those verified, that decided output `i` of the round.
  std::size_t decided_by(std::size_t i) const noexcept {
    return i == 0 || path.empty() ? i : static_cast<std::size_t>(path[i - 1]) + 1;
  }
};

}  // namespace forerun
