#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace forerun {

/// What a companion row costs a round beyond one row more of its pass: adapters that run on it, and
/// the drafter's work on what it brings. A running mean over 32 passes; a pass counts at most as
/// twice its expected time. What was measured long ago counts less, as in PassCost, and 512 passes
/// later no more: rows that do not run are not thought dear forever.
class CompanionCost {
 public:
  /// @param companions  rows of the pass
  /// @param seconds     of the pass, and of that work
  /// @param expected    what PassCost says of as many rows, companions included
  void observe(std::size_t companions, double seconds, double expected) noexcept {
    if (companions == 0 || !std::isfinite(seconds) || seconds <= 0.0 || expected <= 0.0) return;
    const double extra = std::clamp(seconds - expected, -expected, expected);
    seen_ = std::min(seen_ * kStale / (kStale + age_) + 1.0, kAveraged);
    age_ = 0.0;
    mean_ += (extra / static_cast<double>(companions) - mean_) / seen_;
  }
  /// A pass that has none.
  void pass_without() noexcept {
    if (++age_ > kForgotten) *this = {};
  }
  /// Expected seconds of so many companions beyond those of as many rows; 0 without measurements.
  double seconds(std::size_t companions) const noexcept {
    return std::max(0.0, mean_) * static_cast<double>(companions);
  }

 private:
  static constexpr double kAveraged = 32.0, kStale = 16.0, kForgotten = 512.0;  // passes
  double mean_ = 0.0, seen_ = 0.0, age_ = 0.0;
};

}  // namespace forerun
