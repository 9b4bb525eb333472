#include "forerun/tensor/cpu/avx512/kernels.h"
#include "forerun/tensor/cpu/avx512/vector_math.h"

namespace forerun::avx512 {
namespace {

// One group: 32 values in two registers, those behind the row's end zero.
inline void quantize_group(__m512 a, __m512 b, std::int8_t* values, float* scale,
                           std::int32_t* offset) {
  const __m512i sign = _mm512_set1_epi32(0x7fffffff);
  // As integers, absolute values compare like the floats they are, and NaN above all of them.
  const __m512i largest = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), sign),
                                           _mm512_and_si512(_mm512_castps_si512(b), sign));
  const float most =
      _mm512_cvtss_f32(_mm512_castsi512_ps(_mm512_set1_epi32(_mm512_reduce_max_epi32(largest))));
  // Values so small that 127 / most overflows count as zeros.
  const float inverse = most < 1e-30F ? 0.0F : 127.0F / most;
  *scale = most < 1e-30F ? 0.0F : most / 127.0F;
  const __m512i qa = _mm512_cvtps_epi32(_mm512_mul_ps(a, _mm512_set1_ps(inverse)));
  const __m512i qb = _mm512_cvtps_epi32(_mm512_mul_ps(b, _mm512_set1_ps(inverse)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(values), _mm512_cvtsepi32_epi8(qa));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(values + 16), _mm512_cvtsepi32_epi8(qb));
  // Only finite rows need the exact sum; others are NaN by their scale.
  *offset = -128 * _mm512_reduce_add_epi32(_mm512_add_epi32(
                       _mm512_cvtepi8_epi32(_mm512_cvtsepi32_epi8(qa)),
                       _mm512_cvtepi8_epi32(_mm512_cvtsepi32_epi8(qb))));
}

template <class Load>
inline void quantize(std::int64_t n, const Int8Rows& out, std::int64_t first, Load load) {
  for (std::int64_t i = 0, g = first; i < n; i += kGroup, ++g) {
    const std::int64_t left = n - i;
    quantize_group(load(i, first_lanes(left)), load(i + 16, left > 16 ? first_lanes(left - 16) : 0),
                   out.values + g * kGroup, out.scales + g, out.offsets + g);
  }
}

inline float inverse_rms(const float* x, float eps, std::int64_t k) {
  __m512 s = _mm512_setzero_ps(), t = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < k; i += 32) {
    const __m512 a = _mm512_maskz_loadu_ps(first_lanes(k - i), x + i);
    s = _mm512_fmadd_ps(a, a, s);
    if (k - i > 16) {
      const __m512 b = _mm512_maskz_loadu_ps(first_lanes(k - i - 16), x + i + 16);
      t = _mm512_fmadd_ps(b, b, t);
    }
  }
  const float mean = _mm512_reduce_add_ps(_mm512_add_ps(s, t)) / static_cast<float>(k);
  return 1.0F / __builtin_sqrtf(mean + eps);
}

}  // namespace

void quantize_row(const float* x, std::int64_t n, const Int8Rows& out, std::int64_t r,
                  std::int64_t first) {
  quantize(n, out, r * out.groups + first,
           [x](std::int64_t i, __mmask16 m) { return _mm512_maskz_loadu_ps(m, x + i); });
}

void norm_quantize_row(const float* x, const float* weight, float eps, std::int64_t k,
                       const Int8Rows& out, std::int64_t r) {
  const __m512 inverse = _mm512_set1_ps(inverse_rms(x, eps, k));
  quantize(k, out, r * out.groups, [=](std::int64_t i, __mmask16 m) {
    const __m512 normed = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), inverse);
    return _mm512_mul_ps(normed, _mm512_maskz_loadu_ps(m, weight + i));
  });
}

void rms_norm_row(const float* x, const float* weight, float eps, std::int64_t k, float* y) {
  const __m512 inverse = _mm512_set1_ps(inverse_rms(x, eps, k));
  for (std::int64_t i = 0; i < k; i += 16) {
    const __mmask16 m = first_lanes(k - i);
    const __m512 normed = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), inverse);
    _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(normed, _mm512_maskz_loadu_ps(m, weight + i)));
  }
}

void add_row(const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    _mm512_mask_storeu_ps(
        y + i, m,
        _mm512_add_ps(_mm512_maskz_loadu_ps(m, x + i), _mm512_maskz_loadu_ps(m, y + i)));
  }
}

void rotate_row(float* x, const float* cos, const float* sin, std::int64_t half) {
  for (std::int64_t i = 0; i < half; i += 16) {
    const __mmask16 m = first_lanes(half - i);
    const __m512 a = _mm512_maskz_loadu_ps(m, x + i), b = _mm512_maskz_loadu_ps(m, x + half + i);
    const __m512 c = _mm512_maskz_loadu_ps(m, cos + i), s = _mm512_maskz_loadu_ps(m, sin + i);
    _mm512_mask_storeu_ps(x + i, m, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
    _mm512_mask_storeu_ps(x + half + i, m, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
  }
}

void silu_gate_row(const float* gate, const float* up, std::int64_t n, float* out) {
  const __m512 one = _mm512_set1_ps(1.0F), zero = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(m, gate + i), u = _mm512_maskz_loadu_ps(m, up + i);
    const __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, exp512(_mm512_sub_ps(zero, g))));
    _mm512_mask_storeu_ps(out + i, m, _mm512_mul_ps(silu, u));
  }
}

void gelu_gate_row(const float* gate, const float* up, std::int64_t n, float* out) {
  const __m512 one = _mm512_set1_ps(1.0F);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(m, gate + i), u = _mm512_maskz_loadu_ps(m, up + i);
    // 0.5 (1 + tanh(y)) = 1 / (1 + exp(-2 y)), y = sqrt(2 / pi) (g + 0.044715 g^3)
    const __m512 cube = _mm512_mul_ps(_mm512_mul_ps(g, g), g);
    const __m512 inner = _mm512_fmadd_ps(cube, _mm512_set1_ps(0.044715F), g);
    const __m512 e = exp512(_mm512_mul_ps(inner, _mm512_set1_ps(-1.5957691216F)));
    _mm512_mask_storeu_ps(out + i, m, _mm512_mul_ps(_mm512_div_ps(g, _mm512_add_ps(one, e)), u));
  }
}

void scale_row(float* x, std::int64_t n, float by) {
  const __m512 factor = _mm512_set1_ps(by);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    _mm512_mask_storeu_ps(x + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), factor));
  }
}

void round_to_bf16(const float* x, std::int64_t n, std::uint16_t* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    _mm256_mask_storeu_epi16(y + i, m, bf16_of(_mm512_maskz_loadu_ps(m, x + i)));
  }
}

void widen_bf16(const std::uint16_t* x, std::int64_t n, float scale, float* y) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    _mm512_mask_storeu_ps(y + i, m,
                          _mm512_mul_ps(from_bf16(_mm256_maskz_loadu_epi16(m, x + i)), factor));
  }
}

}  // namespace forerun::avx512
