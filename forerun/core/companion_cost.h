#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace forerun {

/// What the companion rows of a pass cost a round beyond as many rows more: adapters, whose weights
/// are read once a pass however many rows they run on, and the drafter's work on what they bring.
/// So it is a cost of the pass and not of a row. A running mean over 32 passes that begins as if
/// four had cost nothing more; a pass counts at most as twice its expected time. The first pass
/// does not count: what nothing has read yet comes from memory then, and room is made for the rows.
///
/// Rows that are thought dear do not run, so nothing would correct that. As in PassCost, what was
/// measured is believed for 12 passes for each that it rests on and two more, then halves every as
/// many; it counts less beside what is measured later, and 512 passes later no more.
class CompanionCost {
 public:
  /// @param seconds   of a pass with companions, and of that work
  /// @param expected  what PassCost says of as many rows, companions included
  void observe(double seconds, double expected) noexcept {
    if (!std::isfinite(seconds) || seconds <= 0.0 || expected <= 0.0) return;
    if (std::exchange(first_, false)) return;
    const double extra = std::clamp(seconds - expected, -expected, expected);
    seen_ = std::min(seen_ * kStale / (kStale + age_) + 1.0, kAveraged);
    age_ = 0.0;
    mean_ += (extra - mean_) / std::min(kPrior + seen_, kAveraged);
  }
  /// A pass that has none.
  void pass_without() noexcept {
    if (++age_ > kForgotten) mean_ = seen_ = age_ = 0.0;
  }
  /// Whether it rests on enough passes to tell it from what rows cost.
  bool known() const noexcept { return seen_ >= kKnown; }
  /// Expected seconds of a pass with so many companions beyond those of as many rows; 0 without
  /// measurements.
  double seconds(std::size_t companions) const noexcept {
    if (companions == 0 || mean_ <= 0.0) return 0.0;
    const double believed = kBelieved * (seen_ + 2.0);
    return age_ > believed ? mean_ * std::exp2(1.0 - age_ / believed) : mean_;
  }

 private:
  static constexpr double kPrior = 4.0, kKnown = 4.0, kAveraged = 32.0, kStale = 16.0,
                          kBelieved = 12.0, kForgotten = 512.0;  // passes
  bool first_ = true;
  double mean_ = 0.0, seen_ = 0.0, age_ = 0.0;
};

}  // namespace forerun
