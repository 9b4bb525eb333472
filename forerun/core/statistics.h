#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/outcome.h"

namespace forerun {

/// The raw counters of a run, and derived figures. An observer of the loop.
struct RunStatistics {
  std::uint64_t rounds = 0;             ///< target passes that verified, each sequence's counted
  std::uint64_t outputs = 0;            ///< outputs emitted
  std::vector<std::uint64_t> examined;  ///< by draft position: drafts the rule examined
  std::vector<std::uint64_t> accepted;  ///< by draft position: drafts kept
  std::uint64_t drafted = 0;            ///< drafts proposed
  std::vector<std::uint64_t> lengths;   ///< rounds of a sequence by drafts proposed: 0, 1, ...
  std::uint64_t passes = 0;             ///< target passes, each serving all sequences of its batch
  Timings seconds;

  /// Mean accepted length: outputs per target pass and sequence, the corrected or bonus one
  /// counted.
  double tau() const noexcept {
    return rounds == 0 ? 0.0 : static_cast<double>(outputs) / static_cast<double>(rounds);
  }
  std::uint64_t kept() const noexcept;  ///< drafts kept, over all positions
  double acceptance() const noexcept;   ///< share of the examined drafts that were kept
  /// Share of the examined drafts that were kept, by draft position.
  std::vector<double> acceptance_by_position() const;
  void add(std::span<const Outcome> outcomes, const Timings& spent);
  void add(const RunStatistics& other);

  template <class Round>
  void operator()(const Round& round) {
    add(round.outcomes, round.seconds);
  }
};

}  // namespace forerun
