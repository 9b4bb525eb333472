#pragma once

#include <cstdint>

namespace forerun {

/// Estimates the remaining time of a run from the time of its steps. The first step of a process is
/// ignored if there are others: it includes one-time preparation.
class Pace {
 public:
  /// @param seconds  since the last call, everything between two steps included
  void add(double seconds);
  /// 0 while unknown.
  double remaining(std::int64_t steps_left) const;

 private:
  std::int64_t steps_ = 0;
  double first_ = 0.0, sum_ = 0.0, weight_ = 0.0;
};

}  // namespace forerun
