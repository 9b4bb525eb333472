#include "forerun/core/log_sum_exp.h"

#include <algorithm>
#include <cmath>

#include "forerun/core/internal/vocabulary_loops.h"

namespace forerun {

double log_sum_exp(std::span<const float> x) {
  const double most = *std::max_element(x.begin(), x.end());
  return most + std::log(internal::exp_sum(x.data(), x.size(), most));
}

}  // namespace forerun
