#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace forerun {

/// log sum exp(x), in float64. @param x  not empty
double log_sum_exp(std::span<const float> x);

/// log(share * exp(a) + (1 - share) * exp(b)): the mean of two probabilities, from their
/// logarithms.
/// @param a, b  finite, or one of them minus infinity
inline double log_mix(double share, double a, double b) {
  const double most = std::max(a, b);
  return most + std::log(share * std::exp(a - most) + (1.0 - share) * std::exp(b - most));
}

}  // namespace forerun
