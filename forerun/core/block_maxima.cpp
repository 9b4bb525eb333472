#include "forerun/core/block_maxima.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "forerun/core/internal/vocabulary_loops.h"

namespace forerun {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

}  // namespace

float largest(std::span<const float> x) { return internal::largest(x.data(), x.size()).value; }

std::vector<float> block_maxima(std::span<const float> x, std::size_t block) {
  std::vector<float> out((x.size() + block - 1) / block);
  internal::block_maxima(x.data(), x.size(), block, out.data());
  return out;
}

float nth_largest(std::vector<float> x, std::size_t n) {
  if (n > x.size()) return kNone;
  const auto at = x.begin() + static_cast<std::ptrdiff_t>(n) - 1;
  std::nth_element(x.begin(), at, x.end(), std::greater<>());
  return *at;
}

}  // namespace forerun
