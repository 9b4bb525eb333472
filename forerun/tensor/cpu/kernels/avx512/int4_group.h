#pragma once

// Scales and levels of a group of 4-bit weights in registers.

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun::avx512 {
namespace {

inline __m512 from_half(const std::uint16_t* x) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(x)));
}

// Levels of four inputs of 16 outputs, from bits `shift` on.
template <int shift>
inline __m512i levels(const kernel::Int4Group& group, int pair) {
  const __m512i both = _mm512_load_si512(group.levels[pair]);
  return _mm512_and_si512(_mm512_srli_epi16(both, shift), _mm512_set1_epi8(15));
}

}  // namespace
}  // namespace forerun::avx512
