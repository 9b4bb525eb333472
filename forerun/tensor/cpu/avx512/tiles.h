#pragma once

// Included only by the files compiled for AVX-512: shared code of the products over blocks of rows.

#include <immintrin.h>

#include <cstdint>

namespace forerun::avx512 {
namespace {

// A 32-bit load broadcast to a register. Kept separate from the product: as its memory operand it
// would be loaded for each product, three times slower on Zen 4.
inline __m512i spread(const void* p) {
  __m512i v = _mm512_broadcastd_epi32(_mm_loadu_si32(p));
  asm("" : "+v"(v));
  return v;
}

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
}  // namespace forerun::avx512
