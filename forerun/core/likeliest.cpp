#include "forerun/core/likeliest.h"

#include <algorithm>
#include <array>
#include <limits>

namespace forerun {
namespace {

constexpr std::size_t kBlock = 64, kLanes = 16;
constexpr float kNone = -std::numeric_limits<float>::infinity();

// Several maxima side by side, so that the loop vectorises.
float block_max(const float* x, std::size_t n) {
  std::array<float, kLanes> most;
  most.fill(kNone);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
  }
  float out = kNone;
  for (const float m : most) out = m > out ? m : out;
  for (; i < n; ++i) out = x[i] > out ? x[i] : out;
  return out;
}

}  // namespace

std::vector<Token> likeliest(std::span<const float> weights, std::size_t n) {
  std::vector<Token> out;
  if (n == 0) return out;
  // The nth largest block maximum is a lower bound of what is looked for.
  std::vector<float> maxima;
  maxima.reserve(weights.size() / kBlock + 1);
  for (std::size_t i = 0; i < weights.size(); i += kBlock) {
    maxima.push_back(block_max(weights.data() + i, std::min(kBlock, weights.size() - i)));
  }
  float least = kNone;
  if (maxima.size() > n) {
    std::vector<float> sorted = maxima;
    const auto nth = sorted.begin() + static_cast<std::ptrdiff_t>(n - 1);
    std::nth_element(sorted.begin(), nth, sorted.end(), std::greater<>());
    least = *nth;
  }
  for (std::size_t b = 0; b < maxima.size(); ++b) {
    if (maxima[b] < least) continue;
    for (std::size_t i = b * kBlock; i < std::min(weights.size(), (b + 1) * kBlock); ++i) {
      if (weights[i] >= least && weights[i] > kNone) out.push_back(static_cast<Token>(i));
    }
  }
  const auto likelier = [&](Token a, Token b) {
    const float x = weights[static_cast<std::size_t>(a)], y = weights[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const std::size_t keep = std::min(n, out.size());
  std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(keep), out.end(),
                    likelier);
  out.resize(keep);
  return out;
}

}  // namespace forerun
