#include "forerun/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace forerun {

Schedule Schedule::of(double rate, double min_rate, std::int64_t steps, double warmup_share) {
  // Minus a small epsilon, so that .04 of 100 steps is 4 and not 5.
  const double warmup = std::ceil(warmup_share * static_cast<double>(steps) - 1e-9);
  return {rate, min_rate, steps,
          std::min(static_cast<std::int64_t>(warmup), std::max<std::int64_t>(steps - 1, 0))};
}

double Schedule::at(std::int64_t step) const {
  // Never 0: the first step must have an effect.
  if (step <= warmup) return rate * static_cast<double>(step) / static_cast<double>(warmup + 1);
  const std::int64_t falling = std::max<std::int64_t>(steps - warmup - 1, 1);
  const double done = static_cast<double>(step - warmup - 1) / static_cast<double>(falling);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return rate * (min_rate + (1.0 - min_rate) * cosine);
}

}  // namespace forerun
