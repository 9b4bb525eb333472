#pragma once

#include <span>

namespace forerun {

/// log sum exp(x), in float64. @param x  not empty
double log_sum_exp(std::span<const float> x);

}  // namespace forerun
