#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx512 {

using kernel::KeyProduct;
using kernel::kKeys;
using kernel::ValueProduct;

namespace {

constexpr int kMost = 6;  // rows: 24 sums, 4 inputs and a broadcast one of 32 registers

template <int lines>
inline void prefetch(const std::uint8_t* from, std::int64_t step) {
  if (from == nullptr) return;
#pragma GCC unroll 4
  for (int i = 0; i < lines; ++i) _mm_prefetch(from + 64 * (lines * step + i), _MM_HINT_T0);
}

template <int R>
void key_tile(const KeyProduct& p, std::int64_t row, bool fetch) {
  constexpr int V = kKeys / 16;
  const std::int64_t width = 4 * p.quads;
  const std::int8_t* q = p.q + row * width;
  __m512i dot[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    const __m512i start = _mm512_set1_epi32(p.starts[row + r]);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) dot[r][v] = start;
  }
  const std::uint8_t* keys = p.keys;
  for (std::int64_t k = 0; k < p.quads; ++k, keys += 4 * kKeys) {
    __m512i in[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) in[v] = _mm512_load_si512(keys + 64 * v);
    if (fetch) {
      prefetch<V>(p.next, k);
      prefetch<V>(p.also, k);
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m512i x = spread(q + r * width + 4 * k);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) add_products(dot[r][v], in[v], x);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const __m512 scale = _mm512_load_ps(p.key_scales + 16 * v);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      _mm512_storeu_ps(p.out + (row + r) * p.stride + 16 * v,
                       _mm512_mul_ps(_mm512_cvtepi32_ps(dot[r][v]), scale));
    }
  }
}

// R rows, V vectors of 16 columns. Sums fit 32 bits: 255 * 127 * 256 weights that are not zero.
template <int R, int V>
void value_tile(const ValueProduct& p, std::int64_t row, std::int64_t column) {
  __m512i sum[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = _mm512_setzero_si512();
  }
  const std::uint8_t* weights = p.weights + row * p.stride;
  for (std::int64_t page = 0; page < p.pages; ++page) {
    const std::int8_t* values = p.values[page] + 4 * column;
    const std::uint8_t* next = V == 4 && row == 0 && page == 0 ? p.next : nullptr;
    for (std::int64_t k = 0; k < kKeys / 4; ++k, values += 4 * p.columns, weights += 4) {
      __m512i in[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) in[v] = _mm512_load_si512(values + 64 * v);
      prefetch<V>(next, k + column / 64 * (kKeys / 4));
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        const __m512i w = spread(weights + r * p.stride);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) add_products(sum[r][v], w, in[v]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    const __m512 unit = _mm512_set1_ps(p.units[row + r]);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      _mm512_storeu_ps(p.out + (row + r) * p.columns + column + 16 * v,
                       _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r][v]), unit));
    }
  }
}

template <int V>
void value_columns(const ValueProduct& p, std::int64_t column) {
  each_block<kMost>(p.rows, [&](auto height, std::int64_t row, std::int64_t) {
    value_tile<decltype(height)::value, V>(p, row, column);
  });
}

}  // namespace

void key_product(const KeyProduct& p) {
  each_block<kMost>(p.rows, [&](auto height, std::int64_t row, std::int64_t block) {
    key_tile<decltype(height)::value>(p, row, block == 0);
  });
}

void value_product(const ValueProduct& p) {
  std::int64_t column = 0;
  for (; column + 64 <= p.columns; column += 64) value_columns<4>(p, column);
  for (; column < p.columns; column += 16) value_columns<1>(p, column);
}

}  // namespace forerun::avx512

#endif  // __x86_64__
