#include "forerun/core/block_maxima.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace forerun {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

}  // namespace

// Several maxima side by side, so that the loop vectorises.
float largest(std::span<const float> x) {
  std::array<float, 16> most;
  most.fill(kNone);
  std::size_t i = 0;
  for (; i + most.size() <= x.size(); i += most.size()) {
    for (std::size_t j = 0; j < most.size(); ++j) most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
  }
  float out = *std::max_element(most.begin(), most.end());
  for (; i < x.size(); ++i) out = std::max(out, x[i]);
  return out;
}

std::vector<float> block_maxima(std::span<const float> x, std::size_t block) {
  std::vector<float> out;
  out.reserve(x.size() / block + 1);
  for (std::size_t i = 0; i < x.size(); i += block) {
    out.push_back(largest(x.subspan(i, std::min(block, x.size() - i))));
  }
  return out;
}

float nth_largest(std::vector<float> x, std::size_t n) {
  if (n > x.size()) return kNone;
  const auto at = x.begin() + static_cast<std::ptrdiff_t>(n) - 1;
  std::nth_element(x.begin(), at, x.end(), std::greater<>());
  return *at;
}

}  // namespace forerun
