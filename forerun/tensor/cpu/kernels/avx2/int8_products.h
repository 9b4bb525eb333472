#pragma once

// Included only by the files compiled for AVX2: exact products of bytes without VNNI.

#include "forerun/tensor/cpu/kernels/avx2/vectors.h"

namespace forerun::avx2 {
namespace {

inline __m256i load_bytes(const void* p) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
}

// Four bytes of a row in every lane, and their absolute values.
struct Quad {
  __m256i values, sizes;
};
inline Quad quad(const std::int8_t* p) {
  const __m256i x = _mm256_broadcastd_epi32(_mm_loadu_si32(p));
  return {x, _mm256_abs_epi8(x)};
}

// Adds the products of four signed bytes in each lane. |x| times (sign of x) w keeps sums of two
// within 16 bits, 2 * 127 * 127, where w + 128 times x would not.
inline __m256i add_quads(__m256i sum, const Quad& x, __m256i w) {
  const __m256i twos = _mm256_maddubs_epi16(x.sizes, _mm256_sign_epi8(w, x.values));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(twos, _mm256_set1_epi16(1)));
}

// Bytes that are stored + 128.
inline __m256i load_offset(const std::uint8_t* p) {
  return _mm256_xor_si256(load_bytes(p), _mm256_set1_epi8(-128));
}

// Of four bytes in each lane the first and third, and the second and fourth, as 16 bits. Products
// of bytes with and without a sign fit them one by one; sums of two would not.
struct Halves {
  __m256i even, odd;
};
inline Halves signed_halves(__m256i x) {
  return {_mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), _mm256_srai_epi16(x, 8)};
}
inline Halves unsigned_halves(__m256i x) {
  return {_mm256_and_si256(x, _mm256_set1_epi16(255)), _mm256_srli_epi16(x, 8)};
}
inline __m256i add_halves(__m256i sum, const Halves& w, const Halves& x) {
  return _mm256_add_epi32(
      sum, _mm256_add_epi32(_mm256_madd_epi16(w.even, x.even), _mm256_madd_epi16(w.odd, x.odd)));
}
inline __m256i spread(const void* p) { return _mm256_broadcastd_epi32(_mm_loadu_si32(p)); }

}  // namespace
}  // namespace forerun::avx2
