#if defined(__x86_64__)

#include "forerun/tensor/cpu/avx512/kernels.h"
#include "forerun/tensor/cpu/avx512/vector_math.h"

namespace forerun::avx512 {
namespace {

inline float inverse_rms(const float* x, float eps, std::int64_t k) {
  __m512 s = _mm512_setzero_ps(), t = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < k; i += 32) {
    const __m512 a = _mm512_maskz_loadu_ps(first_sequences(k - i), x + i);
    s = _mm512_fmadd_ps(a, a, s);
    if (k - i > 16) {
      const __m512 b = _mm512_maskz_loadu_ps(first_sequences(k - i - 16), x + i + 16);
      t = _mm512_fmadd_ps(b, b, t);
    }
  }
  const float mean = _mm512_reduce_add_ps(_mm512_add_ps(s, t)) / static_cast<float>(k);
  return 1.0F / __builtin_sqrtf(mean + eps);
}

// x / (1 + exp(-2 y)) = 0.5 x (1 + tanh(y)), y = sqrt(2 / pi) (x + 0.044715 x^3)
inline __m512 gelu(__m512 x) {
  const __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
  const __m512 inner = _mm512_fmadd_ps(cube, _mm512_set1_ps(0.044715F), x);
  const __m512 e = exp512(_mm512_mul_ps(inner, _mm512_set1_ps(-1.5957691216F)));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0F), e));
}

}  // namespace

void rms_norm_row(const float* x, const float* weight, float eps, std::int64_t k, float* y) {
  const __m512 inverse = _mm512_set1_ps(inverse_rms(x, eps, k));
  for (std::int64_t i = 0; i < k; i += 16) {
    const __mmask16 m = first_sequences(k - i);
    const __m512 normed = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), inverse);
    _mm512_mask_storeu_ps(y + i, m, _mm512_mul_ps(normed, _mm512_maskz_loadu_ps(m, weight + i)));
  }
}

void add_row(const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    _mm512_mask_storeu_ps(
        y + i, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, x + i), _mm512_maskz_loadu_ps(m, y + i)));
  }
}

void rotate_row(float* x, const float* cos, const float* sin, std::int64_t half) {
  for (std::int64_t i = 0; i < half; i += 16) {
    const __mmask16 m = first_sequences(half - i);
    const __m512 a = _mm512_maskz_loadu_ps(m, x + i), b = _mm512_maskz_loadu_ps(m, x + half + i);
    const __m512 c = _mm512_maskz_loadu_ps(m, cos + i), s = _mm512_maskz_loadu_ps(m, sin + i);
    _mm512_mask_storeu_ps(x + i, m, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
    _mm512_mask_storeu_ps(x + half + i, m, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
  }
}

void silu_gate_row(const float* gate, const float* up, std::int64_t n, float* out) {
  const __m512 one = _mm512_set1_ps(1.0F), zero = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(m, gate + i), u = _mm512_maskz_loadu_ps(m, up + i);
    const __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, exp512(_mm512_sub_ps(zero, g))));
    _mm512_mask_storeu_ps(out + i, m, _mm512_mul_ps(silu, u));
  }
}

void gelu_gate_row(const float* gate, const float* up, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(m, gate + i), u = _mm512_maskz_loadu_ps(m, up + i);
    _mm512_mask_storeu_ps(out + i, m, _mm512_mul_ps(gelu(g), u));
  }
}

void gelu_row(const float* x, std::int64_t n, std::uint16_t* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    _mm256_mask_storeu_epi16(y + i, m, bf16_of(gelu(_mm512_maskz_loadu_ps(m, x + i))));
  }
}

void layer_norm_modulate_row(const float* x, const float* shift, const float* scale, float eps,
                             std::int64_t n, std::uint16_t* y) {
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; i += 16) {
    sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(first_sequences(n - i), x + i));
  }
  const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / static_cast<float>(n));
  __m512 squares = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    const __m512 off = _mm512_maskz_sub_ps(m, _mm512_maskz_loadu_ps(m, x + i), mean);
    squares = _mm512_fmadd_ps(off, off, squares);
  }
  const float variance = _mm512_reduce_add_ps(squares) / static_cast<float>(n);
  const __m512 inverse = _mm512_set1_ps(1.0F / __builtin_sqrtf(variance + eps));
  const __m512 one = _mm512_set1_ps(1.0F);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    const __m512 normed =
        _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(m, x + i), mean), inverse);
    const __m512 by = _mm512_add_ps(_mm512_maskz_loadu_ps(m, scale + i), one);
    _mm256_mask_storeu_epi16(
        y + i, m, bf16_of(_mm512_fmadd_ps(normed, by, _mm512_maskz_loadu_ps(m, shift + i))));
  }
}

void add_gated_row(const float* gate, const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(m, gate + i), v = _mm512_maskz_loadu_ps(m, x + i);
    _mm512_mask_storeu_ps(y + i, m, _mm512_fmadd_ps(g, v, _mm512_maskz_loadu_ps(m, y + i)));
  }
}

void pair_rows(const float* even, const float* odd, std::int64_t n, std::uint16_t* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    const __m512i low = _mm512_cvtepu16_epi32(bf16_of(_mm512_maskz_loadu_ps(m, even + i)));
    const __m512i high = _mm512_cvtepu16_epi32(bf16_of(_mm512_maskz_loadu_ps(m, odd + i)));
    _mm512_mask_storeu_epi32(y + 2 * i, m, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}

void scale_row(float* x, std::int64_t n, float by) {
  const __m512 factor = _mm512_set1_ps(by);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    _mm512_mask_storeu_ps(x + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), factor));
  }
}

void round_to_bf16(const float* x, std::int64_t n, float scale, std::uint16_t* y) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    _mm256_mask_storeu_epi16(y + i, m,
                             bf16_of(_mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), factor)));
  }
}

void widen_bf16(const std::uint16_t* x, std::int64_t n, float scale, float* y) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    _mm512_mask_storeu_ps(y + i, m,
                          _mm512_mul_ps(from_bf16(_mm256_maskz_loadu_epi16(m, x + i)), factor));
  }
}

}  // namespace forerun::avx512

#endif  // __x86_64__
