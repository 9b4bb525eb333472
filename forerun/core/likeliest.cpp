#include "forerun/core/likeliest.h"

#include <algorithm>
#include <limits>

#include "forerun/core/block_maxima.h"

namespace forerun {

std::vector<Token> likeliest(std::span<const float> weights, std::size_t n) {
  std::vector<Token> out;
  if (n == 0) return out;
  constexpr std::size_t kBlock = 64;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const std::vector<float> maxima = block_maxima(weights, kBlock);
  const float least = nth_largest(maxima, n);
  each_at_least(weights, maxima, kBlock, least, [&](std::size_t i) {
    if (weights[i] > kNone) out.push_back(static_cast<Token>(i));
  });
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
