#pragma once

// Products over blocks of rows.

#include <cstdint>

namespace forerun::FORERUN_KERNELS {
namespace {

template <int R>
struct Height {
  static constexpr int value = R;
};

// work(Height<n>) for 1 <= n <= Most.
template <int Most, class Work>
inline void with_height(std::int64_t n, const Work& work) {
  if constexpr (Most > 1) {
    if (n < Most) {
      with_height<Most - 1>(n, work);
      return;
    }
  }
  work(Height<Most>());
}

// Not std::min, which an unoptimised build would emit, in this processor's instructions, for all to
// use.
inline std::int64_t least_of(std::int64_t a, std::int64_t b) { return b < a ? b : a; }

inline std::int64_t blocks_of(std::int64_t rows, std::int64_t most) {
  return (rows + most - 1) / most;
}

// work(Height<n>, first row, block) for blocks of nearly equal height: 9 rows are 5 + 4, not 8 + 1.
template <int Most, class Work>
inline void each_block(std::int64_t rows, const Work& work) {
  const std::int64_t blocks = blocks_of(rows, Most);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = rows * b / blocks;
    with_height<Most>(rows * (b + 1) / blocks - first,
                      [&](auto height) { work(height, first, b); });
  }
}

}  // namespace
}  // namespace forerun::FORERUN_KERNELS
