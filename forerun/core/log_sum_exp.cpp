#include "forerun/core/log_sum_exp.h"

#include <algorithm>
#include <cmath>

namespace forerun {

double log_sum_exp(std::span<const float> x) {
  const double most = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (const float v : x) sum += std::exp(static_cast<double>(v) - most);
  return most + std::log(sum);
}

}  // namespace forerun
