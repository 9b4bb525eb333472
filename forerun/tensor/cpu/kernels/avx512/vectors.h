#pragma once

// Vectors of 16 lanes in AVX-512, one instruction an operation: what the code in shared/ is written
// in. Included only by the files compiled for AVX-512.

#include <immintrin.h>

#include <cstdint>

#define FORERUN_KERNELS avx512

#include "forerun/tensor/cpu/kernels/shared/store_halves.h"

namespace forerun::avx512 {
namespace {

using Mask = __mmask16;
using Floats = __m512;  // + - * / are the compiler's
using Ints = __m512i;   // 32 bits a lane
using Words = __m256i;  // 16 bits a lane

constexpr char kName[] = "AVX-512 VNNI";
constexpr bool kNeedsHalves = false;
constexpr bool kStreams = true;
constexpr int kHeld = 16;  // vectors that fit the registers, with room for others

inline Floats floats(float x) { return _mm512_set1_ps(x); }
inline Ints ints(int x) { return _mm512_set1_epi32(x); }

inline Floats load(const float* p) { return _mm512_loadu_ps(p); }
// Lanes outside of a mask are zero, or `rest`, and not read or written.
inline Floats load(Mask m, const float* p) { return _mm512_maskz_loadu_ps(m, p); }
inline Floats load(Floats rest, Mask m, const float* p) { return _mm512_mask_loadu_ps(rest, m, p); }
inline Ints load_bits(Mask m, const float* p) { return _mm512_maskz_loadu_epi32(m, p); }
inline Words load(Mask m, const std::uint16_t* p) { return _mm256_maskz_loadu_epi16(m, p); }

inline void store(float* p, Floats x) { _mm512_storeu_ps(p, x); }
// Past the caches: 16 values, or 64 bytes, at a multiple of 64 bytes.
inline void stream(float* p, Floats x) { _mm512_stream_ps(p, x); }
inline void stream(std::int8_t* p, const std::int8_t* x) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), _mm512_loadu_si512(x));
}
inline void store(float* p, Mask m, Floats x) { _mm512_mask_storeu_ps(p, m, x); }
inline void store(void* p, Mask m, Ints x) { _mm512_mask_storeu_epi32(p, m, x); }
inline void store(std::uint16_t* p, Words x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
}
inline void store(std::uint16_t* p, Mask m, Words x) { _mm256_mask_storeu_epi16(p, m, x); }
// Bounded to those of 8 bits; the lanes of the second are without a sign.
inline void store_int8(std::int8_t* p, Mask m, Ints x) {
  _mm_mask_storeu_epi8(p, m, _mm512_cvtsepi32_epi8(x));
}
inline void store_uint8(std::uint8_t* p, Ints x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(x));
}

inline Floats fmadd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats fmsub(Floats a, Floats b, Floats c) { return _mm512_fmsub_ps(a, b, c); }
inline Floats fnmadd(Floats a, Floats b, Floats c) { return _mm512_fnmadd_ps(a, b, c); }
inline Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }  // b if one is NaN
inline Floats nearest(Floats x) {                                      // ties to even
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// x * 2^n for whole n; a NaN times 2^infinity is infinity.
inline Floats scaled(Floats x, Floats n) { return _mm512_scalef_ps(x, n); }

inline Mask nan(Floats x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
inline Floats select(Mask m, Floats a, Floats b) { return _mm512_mask_mov_ps(b, m, a); }
inline Floats add(Mask m, Floats a, Floats b) { return _mm512_mask_add_ps(a, m, a, b); }
inline Floats subtract(Floats rest, Mask m, Floats a, Floats b) {
  return _mm512_mask_sub_ps(rest, m, a, b);
}
inline Floats subtract(Mask m, Floats a, Floats b) { return _mm512_maskz_sub_ps(m, a, b); }
inline Floats multiply(Mask m, Floats a, Floats b) { return _mm512_maskz_mul_ps(m, a, b); }

// Halves against each other, the upper first until four are left: the order is part of the result.
inline float sum(Floats x) { return _mm512_reduce_add_ps(x); }
inline float largest(Floats x) { return _mm512_reduce_max_ps(x); }
inline int sum(Ints x) { return _mm512_reduce_add_epi32(x); }
inline int largest(Ints x) { return _mm512_reduce_max_epi32(x); }

inline float first_lane(Floats x) { return _mm512_cvtss_f32(x); }
inline Ints bits(Floats x) { return _mm512_castps_si512(x); }
inline Floats from_bits(Ints x) { return _mm512_castsi512_ps(x); }
inline Ints rounded(Floats x) { return _mm512_cvtps_epi32(x); }  // out of range: 0x80000000
inline Ints truncated(Floats x) { return _mm512_cvttps_epi32(x); }
inline Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Ints max(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
inline Ints both(Ints a, Ints b) { return _mm512_and_si512(a, b); }
inline Ints either(Ints a, Ints b) { return _mm512_or_si512(a, b); }
template <int k>
inline Ints left(Ints x) {
  return _mm512_slli_epi32(x, k);
}
template <int k>
inline Ints right(Ints x) {  // zeros come in
  return _mm512_srli_epi32(x, k);
}
// Those of `b` where `x` is NaN.
inline Ints unless_nan(Floats x, Ints a, Ints b) { return _mm512_mask_mov_epi32(a, nan(x), b); }
inline Words low_words(Ints x) { return _mm512_cvtepi32_epi16(x); }
inline Ints widened(Words x) { return _mm512_cvtepu16_epi32(x); }

// The lanes whose index differs in bit h.
template <int h>
inline Floats exchanged(Floats x) {
  if constexpr (h == 1) return _mm512_permute_ps(x, 0xb1);
  if constexpr (h == 2) return _mm512_permute_ps(x, 0x4e);
  if constexpr (h == 4) return _mm512_shuffle_f32x4(x, x, 0xb1);
  if constexpr (h == 8) return _mm512_shuffle_f32x4(x, x, 0x4e);
}

// A 32-bit load broadcast to a register. Kept separate from the product: as its memory operand it
// would be loaded for each product, three times slower on Zen 4.
inline __m512i spread(const void* p) {
  __m512i v = _mm512_broadcastd_epi32(_mm_loadu_si32(p));
  asm("" : "+v"(v));
  return v;
}

// sums += products of four bytes of `a` (without a sign) and `b`. Not the intrinsic: gcc 12 copies
// its sums and spills a third of 24 of them in every step of a loop.
inline void add_products(__m512i& sums, __m512i a, __m512i b) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b));
}

// The same, where the instruction reads the four bytes of every lane from memory: no register holds
// them.
inline void add_products_of(__m512i& sums, __m512i a, const std::int8_t* quad) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sums)
      : "v"(a), "m"(*reinterpret_cast<const std::int8_t(*)[4]>(quad)));
}

}  // namespace
}  // namespace forerun::avx512
