#pragma once

#include <cstdint>

namespace forerun {

/// The learning rate over a run: a linear rise, then half a cosine.
struct Schedule {
  double rate = 6e-4;       ///< at the top
  double min_rate = 0.0;    ///< share of `rate` at the last step
  std::int64_t steps = 1;   ///< of the run
  std::int64_t warmup = 0;  ///< warm-up steps; the first one after them has the full rate

  /// @param warmup_share  of the steps, in [0, 1); rounded up to whole steps
  static Schedule of(double rate, double min_rate, std::int64_t steps, double warmup_share);

  /// @param step  in [1, steps]
  double at(std::int64_t step) const;
};

}  // namespace forerun
