#pragma once

// Vectors of 16 lanes in AVX2, two registers each: every operation gives the bits of the one in
// avx512/vectors.h (kernels_test.cpp). Included only by files compiled for AVX2.

#include <immintrin.h>

#include <cstdint>

#define FORERUN_KERNELS avx2

#include "forerun/tensor/cpu/kernels/shared/store_halves.h"

namespace forerun::avx2 {
namespace {

using Mask = std::uint16_t;
struct Floats {
  __m256 low, high;
};
struct Ints {  // 32 bits a lane
  __m256i low, high;
};
using Words = __m256i;  // 16 bits a lane

constexpr char kName[] = "AVX2";
constexpr bool kNeedsHalves = true;  // its products of bytes are those of 16 bits
constexpr bool kStreams = false;
constexpr int kHeld = 4;  // vectors that fit the registers, with room for others
constexpr Mask kAll = 0xffff;

inline Floats operator+(Floats a, Floats b) { return {a.low + b.low, a.high + b.high}; }
inline Floats operator-(Floats a, Floats b) { return {a.low - b.low, a.high - b.high}; }
inline Floats operator*(Floats a, Floats b) { return {a.low * b.low, a.high * b.high}; }
inline Floats operator/(Floats a, Floats b) { return {a.low / b.low, a.high / b.high}; }

inline Floats floats(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Ints ints(int x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline float first_lane(Floats x) { return _mm256_cvtss_f32(x.low); }
inline Ints bits(Floats x) { return {_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)}; }
inline Floats from_bits(Ints x) {
  return {_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(x.high)};
}

// All bits of the lanes of a mask.
inline Ints spread_mask(Mask m) {
  const __m256i all = _mm256_set1_epi32(m);
  const __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i high = _mm256_slli_epi32(low, 8);
  return {_mm256_cmpeq_epi32(_mm256_and_si256(all, low), low),
          _mm256_cmpeq_epi32(_mm256_and_si256(all, high), high)};
}
inline Floats select(Mask m, Floats a, Floats b) {
  const Floats where = from_bits(spread_mask(m));
  return {_mm256_blendv_ps(b.low, a.low, where.low), _mm256_blendv_ps(b.high, a.high, where.high)};
}

inline Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
// Lanes outside of a mask are zero, or `rest`, and not read or written.
inline Floats load(Mask m, const float* p) {
  if (m == kAll) return load(p);
  const Ints where = spread_mask(m);
  return {_mm256_maskload_ps(p, where.low), _mm256_maskload_ps(p + 8, where.high)};
}
inline Floats load(Floats rest, Mask m, const float* p) { return select(m, load(m, p), rest); }
inline Ints load_bits(Mask m, const float* p) { return bits(load(m, p)); }

inline void store(float* p, Floats x) {
  _mm256_storeu_ps(p, x.low);
  _mm256_storeu_ps(p + 8, x.high);
}
inline void stream(float* p, Floats x) { store(p, x); }
inline void stream(std::int8_t* p, const std::int8_t* x) { __builtin_memcpy(p, x, 64); }
inline void store(float* p, Mask m, Floats x) {
  if (m == kAll) {
    store(p, x);
    return;
  }
  const Ints where = spread_mask(m);
  _mm256_maskstore_ps(p, where.low, x.low);
  _mm256_maskstore_ps(p + 8, where.high, x.high);
}
inline void store(void* p, Mask m, Ints x) { store(static_cast<float*>(p), m, from_bits(x)); }

// Narrower lanes than masked instructions have go through memory.
template <class T>
inline void store_some(T* p, Mask m, const T* from) {
  for (int i = 0; i < 16; ++i) {
    if ((m >> i & 1) != 0) p[i] = from[i];
  }
}
inline Words load(Mask m, const std::uint16_t* p) {
  if (m == kAll) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  alignas(32) std::uint16_t values[16] = {};
  store_some(values, m, p);
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(values));
}
inline void store(std::uint16_t* p, Words x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
}
inline void store(std::uint16_t* p, Mask m, Words x) {
  if (m == kAll) {
    store(p, x);
    return;
  }
  alignas(32) std::uint16_t values[16];
  store(values, x);
  store_some(p, m, values);
}

// The low words of the lanes in order, which the packing instructions leave in four pieces.
inline __m256i ordered(__m256i words) { return _mm256_permute4x64_epi64(words, 0xd8); }
// Bounded to those of 8 bits; the lanes of the second are without a sign.
inline void store_int8(std::int8_t* p, Mask m, Ints x) {
  const __m256i words = ordered(_mm256_packs_epi32(x.low, x.high));
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  if (m == kAll) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
    return;
  }
  alignas(16) std::int8_t values[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(values), bytes);
  store_some(p, m, values);
}
inline void store_uint8(std::uint8_t* p, Ints x) {
  const __m256i most = _mm256_set1_epi32(255);
  const __m256i words =
      ordered(_mm256_packus_epi32(_mm256_min_epu32(x.low, most), _mm256_min_epu32(x.high, most)));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(p),
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

inline Floats fmadd(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats fmsub(Floats a, Floats b, Floats c) {
  return {_mm256_fmsub_ps(a.low, b.low, c.low), _mm256_fmsub_ps(a.high, b.high, c.high)};
}
inline Floats fnmadd(Floats a, Floats b, Floats c) {
  return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
inline Floats max(Floats a, Floats b) {  // b if one is NaN
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Floats nearest(Floats x) {  // ties to even
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.low, kMode), _mm256_round_ps(x.high, kMode)};
}

// x * 2^n as double, which is exact for bounded n, then rounded once.
inline __m128 scaled_exactly(__m128 x, __m128 n) {
  const __m128 most = _mm_set1_ps(400.0F);
  const __m128i bounded =
      _mm_cvtps_epi32(_mm_max_ps(_mm_sub_ps(_mm_setzero_ps(), most), _mm_min_ps(most, n)));
  const __m256i exponent = _mm256_slli_epi64(
      _mm256_add_epi64(_mm256_cvtepi32_epi64(bounded), _mm256_set1_epi64x(1023)), 52);
  const __m128 product =
      _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtps_pd(x), _mm256_castsi256_pd(exponent)));
  // What is left: NaN and 2^infinity.
  const __m128 infinity = _mm_set1_ps(__builtin_inff()), zero = _mm_setzero_ps();
  const __m128 nan_x = _mm_cmpunord_ps(x, x), nan_n = _mm_cmpunord_ps(n, n);
  const __m128 up = _mm_cmpeq_ps(n, infinity);
  const __m128 down = _mm_cmpeq_ps(n, _mm_sub_ps(zero, infinity));
  __m128 y = _mm_blendv_ps(product, _mm_mul_ps(x, infinity), up);  // NaN for zero
  y = _mm_blendv_ps(y, _mm_mul_ps(x, zero), down);                 // NaN for infinity
  y = _mm_blendv_ps(y, _mm_blendv_ps(_mm_blendv_ps(x, infinity, up), zero, down), nan_x);
  return _mm_blendv_ps(y, _mm_blendv_ps(n, x, nan_x), nan_n);
}
inline __m256 scaled_exactly(__m256 x, __m256 n) {
  return _mm256_set_m128(scaled_exactly(_mm256_extractf128_ps(x, 1), _mm256_extractf128_ps(n, 1)),
                         scaled_exactly(_mm256_castps256_ps128(x), _mm256_castps256_ps128(n)));
}
// x * 2^n for whole n; a NaN times 2^infinity is infinity. For x in (1/4, 4) and |n| <= 120 the
// exponents' sum is the product's.
inline Floats scaled(Floats x, Floats n) {
  const auto usual = [](__m256 value, __m256 power) {
    const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), value);
    const __m256 range = _mm256_andnot_ps(_mm256_set1_ps(-0.0F), power);
    return _mm256_and_ps(_mm256_and_ps(_mm256_cmp_ps(size, _mm256_set1_ps(0.25F), _CMP_GT_OQ),
                                       _mm256_cmp_ps(size, _mm256_set1_ps(4.0F), _CMP_LT_OQ)),
                         _mm256_cmp_ps(range, _mm256_set1_ps(120.0F), _CMP_LE_OQ));
  };
  const __m256 fast = _mm256_and_ps(usual(x.low, n.low), usual(x.high, n.high));
  if (_mm256_movemask_ps(fast) == 0xff) {
    const auto shifted = [](__m256 value, __m256 power) {
      return _mm256_castsi256_ps(_mm256_add_epi32(
          _mm256_castps_si256(value), _mm256_slli_epi32(_mm256_cvtps_epi32(power), 23)));
    };
    return {shifted(x.low, n.low), shifted(x.high, n.high)};
  }
  return {scaled_exactly(x.low, n.low), scaled_exactly(x.high, n.high)};
}

inline Floats nan_lanes(Floats x) {
  return {_mm256_cmp_ps(x.low, x.low, _CMP_UNORD_Q), _mm256_cmp_ps(x.high, x.high, _CMP_UNORD_Q)};
}
inline Mask nan(Floats x) {
  const Floats lanes = nan_lanes(x);
  return static_cast<Mask>(_mm256_movemask_ps(lanes.low) | _mm256_movemask_ps(lanes.high) << 8);
}
inline Floats add(Mask m, Floats a, Floats b) { return m == kAll ? a + b : select(m, a + b, a); }
inline Floats subtract(Floats rest, Mask m, Floats a, Floats b) { return select(m, a - b, rest); }
inline Floats subtract(Mask m, Floats a, Floats b) {
  return m == kAll ? a - b : select(m, a - b, floats(0.0F));
}
inline Floats multiply(Mask m, Floats a, Floats b) {
  return m == kAll ? a * b : select(m, a * b, floats(0.0F));
}

// Halves against each other, the upper first until four are left: the order is part of the result.
inline float sum(Floats x) {
  const __m256 eight = x.high + x.low;
  const __m128 four = _mm256_extractf128_ps(eight, 1) + _mm256_castps256_ps128(eight);
  const __m128 two = four + _mm_movehl_ps(four, four);
  return two[0] + two[1];
}
inline float largest(Floats x) {
  const __m256 eight = _mm256_max_ps(x.high, x.low);
  const __m128 four = _mm_max_ps(_mm256_extractf128_ps(eight, 1), _mm256_castps256_ps128(eight));
  const __m128 two = _mm_max_ps(four, _mm_permute_ps(four, 0x4e));
  return _mm_cvtss_f32(_mm_max_ps(two, _mm_permute_ps(two, 0xb1)));
}
inline Ints add(Ints a, Ints b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline Ints max(Ints a, Ints b) {
  return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
inline int sum(Ints x) {
  const __m256i eight = _mm256_add_epi32(x.low, x.high);
  __m128i s = _mm_add_epi32(_mm256_extracti128_si256(eight, 1), _mm256_castsi256_si128(eight));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
inline int largest(Ints x) {
  const __m256i eight = _mm256_max_epi32(x.low, x.high);
  __m128i s = _mm_max_epi32(_mm256_extracti128_si256(eight, 1), _mm256_castsi256_si128(eight));
  s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

inline Ints rounded(Floats x) {  // out of range: 0x80000000
  return {_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high)};
}
inline Ints truncated(Floats x) {
  return {_mm256_cvttps_epi32(x.low), _mm256_cvttps_epi32(x.high)};
}
inline Ints both(Ints a, Ints b) {
  return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}
inline Ints either(Ints a, Ints b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
template <int k>
inline Ints left(Ints x) {
  return {_mm256_slli_epi32(x.low, k), _mm256_slli_epi32(x.high, k)};
}
template <int k>
inline Ints right(Ints x) {  // zeros come in
  return {_mm256_srli_epi32(x.low, k), _mm256_srli_epi32(x.high, k)};
}
// Those of `b` where `x` is NaN.
inline Ints unless_nan(Floats x, Ints a, Ints b) {
  const Ints where = bits(nan_lanes(x));
  return {_mm256_blendv_epi8(a.low, b.low, where.low),
          _mm256_blendv_epi8(a.high, b.high, where.high)};
}
inline Words low_words(Ints x) {
  const Ints words = both(x, ints(0xffff));
  return ordered(_mm256_packus_epi32(words.low, words.high));
}
inline Ints widened(Words x) {
  return {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)),
          _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1))};
}

// The lanes whose index differs in bit h.
template <int h>
inline Floats exchanged(Floats x) {
  if constexpr (h == 1) return {_mm256_permute_ps(x.low, 0xb1), _mm256_permute_ps(x.high, 0xb1)};
  if constexpr (h == 2) return {_mm256_permute_ps(x.low, 0x4e), _mm256_permute_ps(x.high, 0x4e)};
  if constexpr (h == 4) {
    return {_mm256_permute2f128_ps(x.low, x.low, 1), _mm256_permute2f128_ps(x.high, x.high, 1)};
  }
  if constexpr (h == 8) return {x.high, x.low};
}

}  // namespace
}  // namespace forerun::avx2
