#pragma once

// Included only by the files compiled for AVX-512, once with native bf16 products and once without.

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx512 {

using kernel::PairProduct;

namespace {

// Pairs as two float32 each. Every pair is split once, not once for each product: the 8 halves of
// four vectors stay in registers with 20 sums.
struct EmulatedPairs {
  struct Operand {
    __m512 low, high;
  };
  static constexpr int kMostRows = 5;
  static Operand load(__m512i pair) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(pair, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(pair, high))};
  }
  static __m512 add(__m512 sum, const Operand& a, const Operand& b) {
    return _mm512_fmadd_ps(a.high, b.high, _mm512_fmadd_ps(a.low, b.low, sum));
  }
};

// R rows, V vectors of 16 columns.
template <class Pairs, int R, int V>
void pair_tile(const PairProduct& p, std::int64_t row, std::int64_t column) {
  const std::uint16_t* next = row == 0 && p.next != nullptr ? p.next + 2 * column : nullptr;
  __m512 sum[R][V];
  float* c = p.c + row * p.c_stride + column;
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      sum[r][v] = p.add                ? _mm512_loadu_ps(c + r * p.c_stride + 16 * v)
                  : p.start != nullptr ? _mm512_loadu_ps(p.start + column + 16 * v)
                                       : _mm512_setzero_ps();
    }
  }
  const std::uint16_t* a = p.a + row * p.a_stride;
  const std::uint16_t* b = p.b + 2 * column;
  for (std::int64_t k = 0; k < p.pairs; ++k, b += p.b_stride) {
    typename Pairs::Operand in[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) in[v] = Pairs::load(_mm512_loadu_si512(b + 32 * v));
    if (next != nullptr) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) _mm_prefetch(next + k * p.b_stride + 32 * v, _MM_HINT_T0);
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const auto x = Pairs::load(spread(a + r * p.a_stride + 2 * k));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r][v] = Pairs::add(sum[r][v], x, in[v]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) _mm512_storeu_ps(c + r * p.c_stride + 16 * v, sum[r][v]);
  }
}

template <class Pairs, int V>
void pair_columns(const PairProduct& p, std::int64_t column) {
  each_block<Pairs::kMostRows>(p.rows, [&](auto height, std::int64_t row, std::int64_t) {
    pair_tile<Pairs, decltype(height)::value, V>(p, row, column);
  });
}

template <class Pairs>
void pair_product(const PairProduct& p) {
  std::int64_t column = 0;
  for (; column + 64 <= p.columns; column += 64) pair_columns<Pairs, 4>(p, column);
  for (; column < p.columns; column += 16) pair_columns<Pairs, 1>(p, column);
}

}  // namespace
}  // namespace forerun::avx512
