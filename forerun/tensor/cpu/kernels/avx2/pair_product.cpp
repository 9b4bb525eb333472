#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx2/vectors.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx2 {

using kernel::PairProduct;

namespace {

// A pair as two float32 each.
struct Pair {
  __m256 low, high;
};
inline Pair split(__m256i pair) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)),
          _mm256_castsi256_ps(_mm256_and_si256(pair, high))};
}
inline __m256 add(__m256 sum, const Pair& a, const Pair& b) {
  return _mm256_fmadd_ps(a.high, b.high, _mm256_fmadd_ps(a.low, b.low, sum));
}

// R rows, V vectors of 8 columns: R * V sums, 2 V halves and 2 of a broadcast pair.
template <int R, int V>
void pair_tile(const PairProduct& p, std::int64_t row, std::int64_t column) {
  const std::uint16_t* next = row == 0 && p.next != nullptr ? p.next + 2 * column : nullptr;
  __m256 sum[R][V];
  float* c = p.c + row * p.c_stride + column;
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      sum[r][v] = p.add                ? _mm256_loadu_ps(c + r * p.c_stride + 8 * v)
                  : p.start != nullptr ? _mm256_loadu_ps(p.start + column + 8 * v)
                                       : _mm256_setzero_ps();
    }
  }
  const std::uint16_t* a = p.a + row * p.a_stride;
  const std::uint16_t* b = p.b + 2 * column;
  for (std::int64_t k = 0; k < p.pairs; ++k, b += p.b_stride) {
    Pair in[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      in[v] = split(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 16 * v)));
    }
    if (next != nullptr) _mm_prefetch(next + k * p.b_stride, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Pair x = split(_mm256_broadcastd_epi32(_mm_loadu_si32(a + r * p.a_stride + 2 * k)));
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] = add(sum[r][v], x, in[v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) _mm256_storeu_ps(c + r * p.c_stride + 8 * v, sum[r][v]);
  }
}

}  // namespace

void pair_product_emulated(const PairProduct& p) {
  for (std::int64_t column = 0; column < p.columns; column += 16) {
    each_block<4>(p.rows, [&](auto height, std::int64_t row, std::int64_t) {
      pair_tile<decltype(height)::value, 2>(p, row, column);
    });
  }
}

}  // namespace forerun::avx2

#endif  // __x86_64__
