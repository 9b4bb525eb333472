#if defined(__x86_64__)

#include <immintrin.h>

#include "forerun/tensor/cpu/avx512/kernels.h"

namespace forerun::avx512 {
namespace {

constexpr int kVectors = 3;                         // of 16 outputs: a panel
constexpr std::int64_t kStepBytes = kVectors * 64;  // weights of 4 inputs
constexpr std::int64_t kSteps = 4;                  // unrolled: 16 inputs
constexpr std::int64_t kLines = kSteps * kVectors;  // of their weights
constexpr std::int64_t kMost = 8;  // rows: 24 sums, 3 weights and an input of the 32 registers

struct Prefetch {
  const char* at;      // or null
  std::int64_t lines;  // for every 16 inputs
};

// A 32-bit load spread over a register. Kept apart from the product: as its memory operand it would
// be loaded once a product, and that is three times slower on Zen 4.
inline __m512i spread(const std::int8_t* p) {
  __m512i v = _mm512_broadcastd_epi32(_mm_loadu_si32(p));
  asm("" : "+v"(v));
  return v;
}

struct Sink {
  float* out;
  std::int64_t stride, width;
  bool add;
};

// R rows with one panel. Sums are exact integers.
template <int R>
void block(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t first,
           const Sink& sink, Prefetch next) {
  const std::uint8_t* weights = w.data + panel * kPanel * w.width;
  const std::int8_t* values = x.values + first * w.width;
  __m512i dot[R][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const __m512i start = _mm512_set1_epi32(x.offsets[first + r]);
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) dot[r][v] = start;
  }
  for (std::int64_t i = 0; i < w.width; i += 4 * kSteps) {
    for (std::int64_t l = 0; l < next.lines; ++l, next.at += 64) _mm_prefetch(next.at, _MM_HINT_T1);
#pragma GCC unroll 4
    for (int k = 0; k < kSteps; ++k, weights += kStepBytes) {
      __m512i in[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) in[v] = _mm512_load_si512(weights + 64 * v);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m512i a = spread(values + r * w.width + i + 4 * k);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) dot[r][v] = _mm512_dpbusd_epi32(dot[r][v], in[v], a);
      }
    }
  }
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t left = sink.width - 16 * v;
    if (left <= 0) break;
    const __mmask16 mask = left >= 16 ? 0xffff : static_cast<__mmask16>((1U << left) - 1);
    const __m512 scale = _mm512_loadu_ps(w.scales + panel * kPanel + 16 * v);
    const __m512 bias =
        w.bias != nullptr ? _mm512_loadu_ps(w.bias + panel * kPanel + 16 * v) : _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* to = sink.out + (first + r) * sink.stride + 16 * v;
      const __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[first + r]));
      __m512 y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][v]), by, bias);
      if (sink.add) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, to));
      _mm512_mask_storeu_ps(to, mask, y);
    }
  }
}

}  // namespace

void int8_panel(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next) {
  if (rows == 0) return;
  const Sink sink{out, stride, width, add};
  // Blocks of nearly equal height: 9 rows are 5 + 4, not 8 + 1.
  const std::int64_t blocks = (rows + kMost - 1) / kMost;
  // The next panel is fetched in equal parts beside each block's products.
  const std::int64_t lines = next == nullptr ? 0 : (kLines + blocks - 1) / blocks;
  const char* ahead = reinterpret_cast<const char*>(next);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = rows * b / blocks, n = rows * (b + 1) / blocks - first;
    const Prefetch fetch{ahead, b * lines < kLines ? lines : 0};
    switch (n) {
      case 1:
        block<1>(w, panel, x, first, sink, fetch);
        break;
      case 2:
        block<2>(w, panel, x, first, sink, fetch);
        break;
      case 3:
        block<3>(w, panel, x, first, sink, fetch);
        break;
      case 4:
        block<4>(w, panel, x, first, sink, fetch);
        break;
      case 5:
        block<5>(w, panel, x, first, sink, fetch);
        break;
      case 6:
        block<6>(w, panel, x, first, sink, fetch);
        break;
      case 7:
        block<7>(w, panel, x, first, sink, fetch);
        break;
      default:
        block<8>(w, panel, x, first, sink, fetch);
        break;
    }
    ahead += fetch.lines * 64 * (w.width / 16);
  }
}

}  // namespace forerun::avx512

#endif  // __x86_64__
