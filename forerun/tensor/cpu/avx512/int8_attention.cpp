#if defined(__x86_64__)

#include "forerun/tensor/cpu/avx512/int8_attention.h"

#include <immintrin.h>

#include "forerun/tensor/cpu/avx512/tiles.h"
#include "forerun/tensor/cpu/avx512/vector_math.h"

namespace forerun::avx512 {
namespace {

constexpr float kNone = -__builtin_inff();
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
      for (int v = 0; v < V; ++v) dot[r][v] = _mm512_dpbusd_epi32(dot[r][v], in[v], x);
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
        for (int v = 0; v < V; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], w, in[v]);
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

// The 16 keys from `first` on that are visible.
inline __mmask16 in_sight(const Seen& seen, std::int64_t first) {
  const std::int64_t from = seen.begin > first ? seen.begin - first : 0;
  const std::int64_t to = seen.end - first;
  if (to <= from || from >= 16) return 0;
  return static_cast<__mmask16>(first_sequences(to) & ~((1U << from) - 1U));
}

inline bool whole(const Seen& seen, std::int64_t first) {
  return first >= seen.begin && first + 16 <= seen.end;
}

// 2^x for -126 <= x <= 0, relative error 4e-6.
inline __m512 exp2_weight(__m512 x) {
  const __m512 magic = _mm512_set1_ps(12582912.0F);  // 1.5 * 2^23: adding it rounds
  const __m512 shifted = _mm512_add_ps(x, magic);
  const __m512 r = _mm512_sub_ps(x, _mm512_sub_ps(shifted, magic));  // |r| <= 1/2
  __m512 p = _mm512_set1_ps(0.00961812911F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0555041087F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240226507F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693147181F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), exponent));
}

}  // namespace

void key_product(const KeyProduct& p) {
  each_block<kMost>(p.rows, [&](auto height, std::int64_t row, std::int64_t block) {
    key_tile<decltype(height)::value>(p, row, block == 0);
  });
}

SoftmaxPart weigh_row(float* scores, float scale, const float* value_scales, const Seen& seen,
                      std::int64_t n, std::uint8_t* weights, float* unit) {
  const std::int64_t first = seen.begin & ~15LL;
  __m512 most = _mm512_set1_ps(kNone);
  __mmask16 nan = 0;
  for (std::int64_t i = first; i < seen.end; i += 16) {
    const __m512 s = whole(seen, i) ? _mm512_loadu_ps(scores + i)
                                    : _mm512_mask_loadu_ps(most, in_sight(seen, i), scores + i);
    nan |= _mm512_cmp_ps_mask(s, s, _CMP_UNORD_Q);
    most = _mm512_max_ps(most, s);
  }
  const float max = _mm512_reduce_max_ps(most);
  *unit = 0.0F;
  if (nan != 0 || max == kNone) {
    for (std::int64_t i = 0; i < n; i += 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(weights + i), _mm_setzero_si128());
    }
    return nan != 0 ? SoftmaxPart{__builtin_nanf(""), __builtin_nanf("")}
                    : SoftmaxPart{kNone, 0.0F};
  }
  const __m512 rate = _mm512_set1_ps(scale * 1.44269504F), shift = _mm512_set1_ps(max);
  const __m512 lowest = _mm512_set1_ps(-126.0F);
  __m512 sum = _mm512_setzero_ps(), largest = sum;
  for (std::int64_t i = first; i < seen.end; i += 16) {
    const __mmask16 m = whole(seen, i) ? static_cast<__mmask16>(0xffff) : in_sight(seen, i);
    const __m512 x = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(scores + i), shift), rate);
    const __m512 e = exp2_weight(_mm512_max_ps(lowest, x));  // a NaN stays
    sum = _mm512_mask_add_ps(sum, m, sum, e);
    const __m512 y = _mm512_maskz_mul_ps(m, e, _mm512_loadu_ps(value_scales + i));
    largest = _mm512_max_ps(largest, y);
    _mm512_storeu_ps(scores + i, y);
  }
  // Sixteenths in bit-reversed order: neighbours are far apart, so a few keys average out.
  const __m512 pattern =
      _mm512_mul_ps(_mm512_setr_ps(0.5F, 8.5F, 4.5F, 12.5F, 2.5F, 10.5F, 6.5F, 14.5F, 1.5F, 9.5F,
                                   5.5F, 13.5F, 3.5F, 11.5F, 7.5F, 15.5F),
                    _mm512_set1_ps(1.0F / 16.0F));
  const float top = _mm512_reduce_max_ps(largest);
  *unit = top / 255.0F;
  const __m512 by = _mm512_set1_ps(top > 1e-30F ? 255.0F / top : 0.0F);
  for (std::int64_t i = 0; i < n; i += 16) {
    const bool some = i + 16 > first && i < seen.end;  // zeros if nothing is visible
    const __m512 y = some ? _mm512_loadu_ps(scores + i) : _mm512_setzero_ps();
    const __m512i w = _mm512_cvttps_epi32(_mm512_fmadd_ps(y, by, pattern));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(weights + i), _mm512_cvtusepi32_epi8(w));
  }
  return {max * scale, _mm512_reduce_add_ps(sum)};
}

void value_product(const ValueProduct& p) {
  std::int64_t column = 0;
  for (; column + 64 <= p.columns; column += 64) value_columns<4>(p, column);
  for (; column < p.columns; column += 16) value_columns<1>(p, column);
}

}  // namespace forerun::avx512

#endif  // __x86_64__
