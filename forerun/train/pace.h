#pragma once

#include <cstdint>

namespace forerun {

/// How long a run will still take, from how long its steps took. The first step of a process is
/// left out where there are others: it pays for what is prepared once.
class Pace {
 public:
  /// @param seconds  since the last call, all that happened between two steps included
  void add(double seconds);
  /// 0 while nothing is known.
  double remaining(std::int64_t steps_left) const;

 private:
  std::int64_t steps_ = 0;
  double first_ = 0.0, sum_ = 0.0, weight_ = 0.0;
};

}  // namespace forerun
