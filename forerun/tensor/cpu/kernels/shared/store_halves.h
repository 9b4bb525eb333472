#pragma once

// For both kinds of vectors: AVX-512 has the instructions of AVX2.

#include <immintrin.h>

#include <cstdint>

namespace forerun::FORERUN_KERNELS {
namespace {

// 16 values as 16 bits, of every four the first, third, second and fourth.
inline void store_halves(std::int16_t* p, const std::int8_t* values) {
  const __m256i wide =
      _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_shuffle_epi8(wide, order));
}

}  // namespace
}  // namespace forerun::FORERUN_KERNELS
