#include "forerun/core/block_maxima.h"

#include <algorithm>
#include <array>
#include <cstdint>
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

std::vector<float> strided_maxima(std::span<const float> x, std::size_t pieces) {
  std::vector<float> out(pieces);
  internal::strided_maxima(x.data(), x.size(), pieces, out.data());
  return out;
}

float near_nth_largest(std::span<const float> x, float best, float range, std::size_t n) {
  constexpr std::size_t kBins = 256;
  std::array<std::uint32_t, kBins> count{};
  const float width = range / static_cast<float>(kBins);
  const float bins_each = 1.0F / width;
  for (const float v : x) {
    const float bin = (best - v) * bins_each;
    if (bin < static_cast<float>(kBins)) ++count[static_cast<std::size_t>(bin)];  // NaN: no
  }
  std::size_t bin = 0, seen = 0;
  while (bin < kBins && (seen += count[bin]) < n) ++bin;
  return best - static_cast<float>(bin + 2) * width;  // one more for what rounding moves
}

double weight_between(std::span<const float> x, std::span<const float> maxima, float best,
                      float inverse, float least, float below) {
  return internal::weight_between(
      {.w = x.data(), .n = x.size(), .maxima = maxima.data(), .best = best, .inverse = inverse},
      least, below);
}

float nth_largest(std::vector<float> x, std::size_t n) {
  if (n > x.size()) return kNone;
  constexpr std::size_t kFew = 16;
  if (n <= kFew) {  // kept in order: few values are larger than those seen before
    std::array<float, kFew> top;
    top.fill(kNone);
    for (const float v : x) {
      if (!(v > top[n - 1])) continue;
      std::size_t at = n - 1;
      for (; at > 0 && v > top[at - 1]; --at) top[at] = top[at - 1];
      top[at] = v;
    }
    return top[n - 1];
  }
  const auto at = x.begin() + static_cast<std::ptrdiff_t>(n) - 1;
  std::nth_element(x.begin(), at, x.end(), std::greater<>());
  return *at;
}

}  // namespace forerun
