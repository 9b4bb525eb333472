#if defined(__x86_64__)

#include <immintrin.h>

#include "forerun/tensor/cpu/avx512/kernels.h"
#include "forerun/tensor/cpu/avx512/vector_math.h"

namespace forerun::avx512 {
namespace {

// Sums and differences of vectors whose indices differ in bit `h`.
template <int h>
inline __m512 butterfly(__m512 x) {
  __m512 other;
  if constexpr (h == 1) {
    other = _mm512_permute_ps(x, 0xb1);
  } else if constexpr (h == 2) {
    other = _mm512_permute_ps(x, 0x4e);
  } else if constexpr (h == 4) {
    other = _mm512_shuffle_f32x4(x, x, 0xb1);
  } else {
    other = _mm512_shuffle_f32x4(x, x, 0x4e);
  }
  constexpr unsigned second = h == 1 ? 0xaaaa : h == 2 ? 0xcccc : h == 4 ? 0xf0f0 : 0xff00;
  return _mm512_mask_sub_ps(_mm512_add_ps(x, other), static_cast<__mmask16>(second), other, x);
}

// A sign for each of 16 values, from their index.
inline __mmask16 signs(std::uint32_t place) {
  std::uint32_t h = (place + 1) * 0x9e3779b1U;
  h = (h ^ (h >> 15)) * 0x85ebca6bU;
  return static_cast<__mmask16>(h >> 16);
}

void flip_and_scale(float* x, std::int64_t n, std::uint32_t salt, float by) {
  const __m512 plus = _mm512_set1_ps(by), minus = _mm512_set1_ps(-by);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = signs(salt + static_cast<std::uint32_t>(i / 16));
    _mm512_storeu_ps(x + i,
                     _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_mask_mov_ps(plus, m, minus)));
  }
}

// Two stages at once: sums and differences of values h apart, then of those 2 h apart.
inline void four(float* x, std::int64_t h) {
  const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + h), c = _mm512_loadu_ps(x + 2 * h),
               d = _mm512_loadu_ps(x + 3 * h);
  const __m512 ab = _mm512_add_ps(a, b), a_b = _mm512_sub_ps(a, b), cd = _mm512_add_ps(c, d),
               c_d = _mm512_sub_ps(c, d);
  _mm512_storeu_ps(x, _mm512_add_ps(ab, cd));
  _mm512_storeu_ps(x + h, _mm512_add_ps(a_b, c_d));
  _mm512_storeu_ps(x + 2 * h, _mm512_sub_ps(ab, cd));
  _mm512_storeu_ps(x + 3 * h, _mm512_sub_ps(a_b, c_d));
}

}  // namespace

void hadamard_row(float* x, std::int64_t n, std::int64_t block) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __m512 v = butterfly<2>(butterfly<1>(_mm512_loadu_ps(x + i)));
    _mm512_storeu_ps(x + i, butterfly<8>(butterfly<4>(v)));
  }
  std::int64_t h = 16;
  for (; 4 * h <= block; h *= 4) {
    for (std::int64_t first = 0; first < n; first += 4 * h) {
      for (std::int64_t i = first; i < first + h; i += 16) four(x + i, h);
    }
  }
  if (h == block) return;
  for (std::int64_t first = 0; first < n; first += 2 * h) {
    for (std::int64_t i = first; i < first + h; i += 16) {
      const __m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(x + i + h);
      _mm512_storeu_ps(x + i, _mm512_add_ps(a, b));
      _mm512_storeu_ps(x + i + h, _mm512_sub_ps(a, b));
    }
  }
}

void rotate_row(float* x, std::int64_t n) {
  constexpr std::uint32_t kFirst = 0, kSecond = 1U << 16;
  std::int64_t block = 16;
  while (2 * block <= n) block *= 2;
  const float by = 1.0F / __builtin_sqrtf(static_cast<float>(block));
  flip_and_scale(x, block, kFirst, by);
  hadamard_row(x, block, block);
  if (block == n) return;
  flip_and_scale(x + n - block, block, kSecond, by);
  hadamard_row(x + n - block, block, block);
}

Rounded round_to_int8(const float* x, std::int64_t n, std::int8_t* values) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i most = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < n; i += 16) {
    // As integers, absolute values compare like floats, with NaN above all of them.
    const __m512i v = _mm512_maskz_loadu_epi32(first_sequences(n - i), x + i);
    most = _mm512_max_epi32(most, _mm512_and_si512(v, magnitude));
  }
  const int bits = _mm512_reduce_max_epi32(most);
  const bool finite = bits < 0x7f800000;
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  // Values so small that 127 / largest overflows count as zeros.
  const __m512 by = _mm512_set1_ps(finite && largest > 1e-30F ? 127.0F / largest : 0.0F);
  __m512i sum = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    const __m512 v = finite ? _mm512_maskz_loadu_ps(m, x + i) : _mm512_setzero_ps();
    const __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(v, by));
    sum = _mm512_add_epi32(sum, rounded);
    _mm_mask_storeu_epi8(values + i, m, _mm512_cvtsepi32_epi8(rounded));
  }
  return {finite ? largest / 127.0F : __builtin_nanf(""), _mm512_reduce_add_epi32(sum)};
}

void quantize_row(const float* x, std::int64_t n, const Int8Rows& out, std::int64_t r,
                  float* work) {
  for (std::int64_t i = 0; i < out.width; i += 16) {
    const __mmask16 m = n > i ? first_sequences(n - i) : static_cast<__mmask16>(0);
    _mm512_storeu_ps(work + i, _mm512_maskz_loadu_ps(m, x + i));
  }
  rotate_row(work, out.width);
  const Rounded rounded = round_to_int8(work, out.width, out.values + r * out.width);
  out.scales[r] = rounded.scale;
  out.offsets[r] = -128 * rounded.sum;
}

void norm_quantize_row(const float* x, const float* weight, float eps, std::int64_t k,
                       const Int8Rows& out, std::int64_t r, float* work) {
  rms_norm_row(x, weight, eps, k, work);
  quantize_row(work, k, out, r, work);
}

}  // namespace forerun::avx512

#endif  // __x86_64__
