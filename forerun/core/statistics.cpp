#include "forerun/core/statistics.h"

#include <algorithm>
#include <numeric>

namespace forerun {
namespace {

void grow(std::vector<std::uint64_t>& v, std::size_t n) {
  if (v.size() < n) v.resize(n, 0);
}

std::uint64_t sum(const std::vector<std::uint64_t>& v) {
  return std::accumulate(v.begin(), v.end(), std::uint64_t{0});
}

void add(Timings& to, const Timings& t) {
  to.drafter += t.drafter;
  to.target += t.target;
  to.rest += t.rest;
}

}  // namespace

std::uint64_t RunStatistics::kept() const noexcept { return sum(accepted); }

double RunStatistics::acceptance() const noexcept {
  const std::uint64_t tested = sum(examined);
  return tested == 0 ? 0.0 : static_cast<double>(kept()) / static_cast<double>(tested);
}

std::vector<double> RunStatistics::acceptance_by_position() const {
  std::vector<double> rate(examined.size());
  for (std::size_t i = 0; i < rate.size(); ++i) {
    rate[i] = static_cast<double>(accepted[i]) /
              static_cast<double>(std::max<std::uint64_t>(examined[i], 1));
  }
  return rate;
}

void RunStatistics::add(std::span<const Outcome> outcomes, const Timings& spent) {
  ++passes;
  for (const Outcome& o : outcomes) {
    ++rounds;
    outputs += o.emitted;
    drafted += o.drafted;
    grow(lengths, o.drafted + 1);
    ++lengths[o.drafted];
    grow(examined, o.examined);
    grow(accepted, o.examined);
    // Kept drafts come first: acceptance stops at the first rejection.
    for (std::uint32_t i = 0; i < o.examined; ++i) {
      ++examined[i];
      accepted[i] += i < o.accepted ? 1 : 0;
    }
  }
  forerun::add(seconds, spent);
}

void RunStatistics::add(const RunStatistics& other) {
  rounds += other.rounds;
  outputs += other.outputs;
  drafted += other.drafted;
  passes += other.passes;
  grow(examined, other.examined.size());
  grow(accepted, other.accepted.size());
  grow(lengths, other.lengths.size());
  for (std::size_t k = 0; k < other.lengths.size(); ++k) lengths[k] += other.lengths[k];
  for (std::size_t i = 0; i < other.examined.size(); ++i) {
    examined[i] += other.examined[i];
    accepted[i] += other.accepted[i];
  }
  forerun::add(seconds, other.seconds);
}

}  // namespace forerun
