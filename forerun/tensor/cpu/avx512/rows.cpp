#if defined(__x86_64__)

#include "forerun/tensor/cpu/avx512/kernels.h"
#include "forerun/tensor/cpu/avx512/vector_math.h"

namespace forerun::avx512 {
namespace {

// The maxima, or sums, of the lanes of four registers, in every quarter of the result.
template <class Combine>
inline __m512i across(const __m512i (&x)[4], Combine combine) {
  const __m512i ab = combine(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
  const __m512i cd = combine(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
  __m512i all = combine(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  all = combine(all, _mm512_shuffle_i32x4(all, all, 0x4e));
  return combine(all, _mm512_shuffle_i32x4(all, all, 0xb1));
}

// Four groups: 8 registers of 16 values, those behind the row's end zero. Horizontal steps cost as
// much for four groups as for one.
inline void quantize_groups(const __m512 (&x)[8], std::int64_t groups, std::int8_t* values,
                            float* scales, std::int32_t* offsets) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const auto larger = [](__m512i p, __m512i q) { return _mm512_max_epi32(p, q); };
  __m512i most[4];
  for (int g = 0; g < 4; ++g) {
    // As integers, absolute values compare like the floats they are, and NaN above all of them.
    most[g] = larger(_mm512_and_si512(_mm512_castps_si512(x[2 * g]), magnitude),
                     _mm512_and_si512(_mm512_castps_si512(x[2 * g + 1]), magnitude));
  }
  const __m128 largest = _mm512_castps512_ps128(_mm512_castsi512_ps(across(most, larger)));
  const __m128 full = _mm_set1_ps(127.0F);
  // Values so small that 127 / most overflows count as zeros. A NaN is not below.
  const __mmask8 some = _mm_cmp_ps_mask(largest, _mm_set1_ps(1e-30F), _CMP_NLT_UQ);
  const __m512 inverse = _mm512_castps128_ps512(_mm_maskz_div_ps(some, full, largest));
  const auto valid = static_cast<__mmask8>((1U << groups) - 1);
  _mm_mask_storeu_ps(scales, valid, _mm_maskz_div_ps(some, largest, full));
  __m512i sums[4];
  for (int g = 0; g < 4; ++g) {
    const __m512 by = _mm512_permutexvar_ps(_mm512_set1_epi32(g), inverse);
    const __m128i a = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x[2 * g], by)));
    const __m128i b = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x[2 * g + 1], by)));
    const __m256i both = _mm256_set_m128i(b, a);
    if (g < groups) _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + g * kGroup), both);
    const __m256i quads = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), both);
    sums[g] = _mm512_zextsi256_si512(quads);
  }
  const __m128i total = _mm512_castsi512_si128(
      across(sums, [](__m512i p, __m512i q) { return _mm512_add_epi32(p, q); }));
  _mm_mask_storeu_epi32(offsets, valid, _mm_mullo_epi32(total, _mm_set1_epi32(-128)));
}

template <class Load>
inline void quantize(std::int64_t n, const Int8Rows& out, std::int64_t first, Load load) {
  for (std::int64_t i = 0, g = first; i < n; i += 4 * kGroup, g += 4) {
    __m512 x[8];
    for (int j = 0; j < 8; ++j) {
      const std::int64_t at = i + 16 * j;
      x[j] = at < n ? load(at, first_lanes(n - at)) : _mm512_setzero_ps();
    }
    const std::int64_t left = groups_of(n - i);
    quantize_groups(x, left < 4 ? left : 4, out.values + g * kGroup, out.scales + g,
                    out.offsets + g);
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

// x / (1 + exp(-2 y)) = 0.5 x (1 + tanh(y)), y = sqrt(2 / pi) (x + 0.044715 x^3)
inline __m512 gelu(__m512 x) {
  const __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
  const __m512 inner = _mm512_fmadd_ps(cube, _mm512_set1_ps(0.044715F), x);
  const __m512 e = exp512(_mm512_mul_ps(inner, _mm512_set1_ps(-1.5957691216F)));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0F), e));
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
        y + i, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, x + i), _mm512_maskz_loadu_ps(m, y + i)));
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
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(m, gate + i), u = _mm512_maskz_loadu_ps(m, up + i);
    _mm512_mask_storeu_ps(out + i, m, _mm512_mul_ps(gelu(g), u));
  }
}

void gelu_row(const float* x, std::int64_t n, std::uint16_t* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    _mm256_mask_storeu_epi16(y + i, m, bf16_of(gelu(_mm512_maskz_loadu_ps(m, x + i))));
  }
}

void layer_norm_modulate_row(const float* x, const float* shift, const float* scale, float eps,
                             std::int64_t n, std::uint16_t* y) {
  __m512 sum = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; i += 16) {
    sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(first_lanes(n - i), x + i));
  }
  const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / static_cast<float>(n));
  __m512 squares = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    const __m512 off = _mm512_maskz_sub_ps(m, _mm512_maskz_loadu_ps(m, x + i), mean);
    squares = _mm512_fmadd_ps(off, off, squares);
  }
  const float variance = _mm512_reduce_add_ps(squares) / static_cast<float>(n);
  const __m512 inverse = _mm512_set1_ps(1.0F / __builtin_sqrtf(variance + eps));
  const __m512 one = _mm512_set1_ps(1.0F);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    const __m512 normed =
        _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(m, x + i), mean), inverse);
    const __m512 by = _mm512_add_ps(_mm512_maskz_loadu_ps(m, scale + i), one);
    _mm256_mask_storeu_epi16(
        y + i, m, bf16_of(_mm512_fmadd_ps(normed, by, _mm512_maskz_loadu_ps(m, shift + i))));
  }
}

void add_gated_row(const float* gate, const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(m, gate + i), v = _mm512_maskz_loadu_ps(m, x + i);
    _mm512_mask_storeu_ps(y + i, m, _mm512_fmadd_ps(g, v, _mm512_maskz_loadu_ps(m, y + i)));
  }
}

void pair_rows(const float* even, const float* odd, std::int64_t n, std::uint16_t* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    const __m512i low = _mm512_cvtepu16_epi32(bf16_of(_mm512_maskz_loadu_ps(m, even + i)));
    const __m512i high = _mm512_cvtepu16_epi32(bf16_of(_mm512_maskz_loadu_ps(m, odd + i)));
    _mm512_mask_storeu_epi32(y + 2 * i, m, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}

void scale_row(float* x, std::int64_t n, float by) {
  const __m512 factor = _mm512_set1_ps(by);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    _mm512_mask_storeu_ps(x + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), factor));
  }
}

void round_to_bf16(const float* x, std::int64_t n, float scale, std::uint16_t* y) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_lanes(n - i);
    _mm256_mask_storeu_epi16(y + i, m,
                             bf16_of(_mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), factor)));
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

#endif  // __x86_64__
