#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <span>

namespace forerun::internal {

/// The dot product with as many values from `b` on; sums lie side by side, so that the loop
/// vectorises.
inline float dot(std::span<const float> a, const float* b) {
  std::array<float, 16> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= a.size(); i += sums.size()) {
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

}  // namespace forerun::internal
