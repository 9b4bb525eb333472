#pragma once

#include <algorithm>

namespace forerun {

/// Distinguishes brief load on the machine from a lasting change. It compares measured times with
/// expected ones. A time that is too long counts as at most 1.35 times the expected one until three
/// in a row were too long; then the change is lasting. Load never makes a time too short, so short
/// times count in full.
class OutlierClip {
 public:
  /// The clipped measurement: log(seen / expected).
  double clip(double log_ratio) noexcept {
    streak_ = log_ratio > kMoment ? streak_ + 1 : 0;
    sudden_ = streak_ > 3 || log_ratio < -kMoment;
    return std::clamp(log_ratio, -kMost, streak_ > 3 ? kMost : kMoment);
  }
  /// True if the last one is a lasting change, to be followed at once.
  bool sudden() const noexcept { return sudden_; }

 private:
  static constexpr double kMoment = 0.3, kMost = 1.5;
  int streak_ = 0;
  bool sudden_ = false;
};

}  // namespace forerun
