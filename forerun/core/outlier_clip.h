#pragma once

#include <algorithm>

namespace forerun {

/// Tells a machine that was busy for a moment from one that changed. Measured times are compared
/// with the expected ones; one that is too long counts for 1.35 times at most, until three in a row
/// were: then the change is lasting. Nothing makes a time too short, so short ones are believed.
class OutlierClip {
 public:
  /// How far to trust a measurement: log(seen / expected), clipped.
  double clip(double log_ratio) noexcept {
    streak_ = log_ratio > kMoment ? streak_ + 1 : 0;
    sudden_ = streak_ > 3 || log_ratio < -kMoment;
    return std::clamp(log_ratio, -kMost, streak_ > 3 ? kMost : kMoment);
  }
  /// Is the last one a change that lasts, to be followed at once?
  bool sudden() const noexcept { return sudden_; }

 private:
  static constexpr double kMoment = 0.3, kMost = 1.5;
  int streak_ = 0;
  bool sudden_ = false;
};

}  // namespace forerun
