#pragma once

// Scales and levels of a group of 4-bit weights in registers.

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun::avx512 {
namespace {

inline __m512 from_half(const std::uint16_t* x) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(x)));
}

// Levels of four inputs of 16 outputs, whose codes are from bits `shift` on.
template <int shift, bool E2m1>
inline __m512i levels(const kernel::Int4Group& group, int pair) {
  const __m512i both = _mm512_load_si512(group.codes[pair]);
  const __m512i codes = _mm512_and_si512(_mm512_srli_epi16(both, shift), _mm512_set1_epi8(15));
  if constexpr (!E2m1) return codes;
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kernel::kE2m1Levels));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), codes);
}

}  // namespace
}  // namespace forerun::avx512
