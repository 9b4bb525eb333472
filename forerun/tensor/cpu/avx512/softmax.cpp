#if defined(__x86_64__)

#include "forerun/tensor/cpu/avx512/kernels.h"
#include "forerun/tensor/cpu/avx512/vector_math.h"

namespace forerun::avx512 {
namespace {

constexpr float kNone = -__builtin_inff();

inline float exp1(float x) { return _mm512_cvtss_f32(exp512(_mm512_set1_ps(x))); }

// exp(x) for x <= 0 as bf16 bits in the low halves: only these are kept, so a polynomial of degree
// 4 (4e-6) suffices.
inline __m512i bf16_weight(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-110.0F), x);
  const __m512 y = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504F));
  const __m512 n = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = _mm512_sub_ps(y, n);  // 2^r for |r| <= 1/2
  __m512 p = _mm512_set1_ps(0.00961812911F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0555041087F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.240226507F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693147181F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
  const __m512i bits = _mm512_castps_si512(_mm512_scalef_ps(p, n));
  return _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x8000)), 16);
}

}  // namespace

SoftmaxPart exp_row(const float* scores, std::int64_t n, std::uint16_t* p) {
  __m512 most = _mm512_set1_ps(kNone);
  __mmask16 nan = 0;
  for (std::int64_t i = 0; i < n; i += 16) {
    const __m512 s = _mm512_loadu_ps(scores + i);
    nan |= _mm512_cmp_ps_mask(s, s, _CMP_UNORD_Q);
    most = _mm512_max_ps(most, s);
  }
  if (nan != 0) {
    for (std::int64_t i = 0; i < n; ++i) p[i] = 0x7fc0;
    return {__builtin_nanf(""), __builtin_nanf("")};
  }
  const float max = _mm512_reduce_max_ps(most);
  if (max == kNone) {
    for (std::int64_t i = 0; i < n; ++i) p[i] = 0;
    return {kNone, 0.0F};
  }
  __m512 sum = _mm512_setzero_ps();
  const __m512 shift = _mm512_set1_ps(max);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __m512i e = bf16_weight(_mm512_sub_ps(_mm512_loadu_ps(scores + i), shift));
    sum = _mm512_add_ps(sum, _mm512_castsi512_ps(_mm512_slli_epi32(e, 16)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + i), _mm512_cvtepi32_epi16(e));
  }
  return {max, _mm512_reduce_add_ps(sum)};
}

void merge_softmax(float* o, SoftmaxPart* total, const float* part_o, const SoftmaxPart& part,
                   std::int64_t n) {
  if (part.max == kNone) return;
  if (total->max == kNone) {
    for (std::int64_t i = 0; i < n; i += 16) {
      const __mmask16 m = first_sequences(n - i);
      _mm512_mask_storeu_ps(o + i, m, _mm512_maskz_loadu_ps(m, part_o + i));
    }
    *total = part;
    return;
  }
  const float max = total->max > part.max ? total->max : part.max;
  const float a = exp1(total->max - max), b = exp1(part.max - max);
  const __m512 wide_a = _mm512_set1_ps(a), wide_b = _mm512_set1_ps(b);
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 m = first_sequences(n - i);
    const __m512 kept = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, o + i), wide_a);
    _mm512_mask_storeu_ps(o + i, m,
                          _mm512_fmadd_ps(_mm512_maskz_loadu_ps(m, part_o + i), wide_b, kept));
  }
  *total = {max, total->sum * a + part.sum * b};
}

}  // namespace forerun::avx512

#endif  // __x86_64__
