#if defined(__x86_64__)

#include <immintrin.h>

#include "forerun/tensor/cpu/avx512/kernels.h"

namespace forerun::avx512 {
namespace {

constexpr int kVectors = 3;                                    // of 16 outputs: a panel
constexpr std::int64_t kStepBytes = kVectors * 64;             // weights of 4 inputs
constexpr std::int64_t kGroupBytes = kGroup / 4 * kStepBytes;  // weights of a group

struct Prefetch {
  const char* at;  // or null
  std::int64_t lines_per_group;
};

// A 32-bit load spread over a register. Kept apart from the product: as its memory operand it would
// be loaded once a product, and that is three times slower here (Zen 4).
inline __m512i spread(const std::int8_t* p) {
  __m512i v = _mm512_broadcastd_epi32(_mm_loadu_si32(p));
  asm("" : "+v"(v));
  return v;
}

// R rows with one panel. Within a group sums are exact integers; groups are added in order.
template <int R>
inline void rows_by_panel(const std::uint8_t* w, const Int8Rows& x, std::int64_t first,
                          Prefetch next, __m512 (&sum)[R][kVectors]) {
  const std::int64_t width = x.groups * kGroup;
  const std::int8_t* values = x.values + first * width;
  const float* scales = x.scales + first * x.groups;
  const std::int32_t* offsets = x.offsets + first * x.groups;
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (std::int64_t g = 0; g < x.groups; ++g, w += kGroupBytes) {
    for (std::int64_t i = 0; i < next.lines_per_group; ++i, next.at += 64) {
      _mm_prefetch(next.at, _MM_HINT_T1);
    }
    __m512i dot[R][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m512i start = _mm512_set1_epi32(offsets[r * x.groups + g]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) dot[r][v] = start;
    }
#pragma GCC unroll 8
    for (int k = 0; k < kGroup / 4; ++k) {
      __m512i weights[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        weights[v] = _mm512_load_si512(w + k * kStepBytes + v * 64);
      }
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const __m512i in = spread(values + r * width + g * kGroup + 4 * k);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) {
          dot[r][v] = _mm512_dpbusd_epi32(dot[r][v], weights[v], in);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m512 scale = _mm512_set1_ps(scales[r * x.groups + g]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][v]), scale, sum[r][v]);
      }
    }
  }
}

struct Sink {
  float* out;
  std::int64_t stride, width;
  bool add;
};

template <int R>
void block(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t first,
           const Sink& sink, Prefetch next) {
  __m512 sum[R][kVectors];
  rows_by_panel<R>(w.data + panel * w.groups * kGroupBytes, x, first, next, sum);
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t left = sink.width - 16 * v;
    if (left <= 0) break;
    const __mmask16 mask = left >= 16 ? 0xffff : static_cast<__mmask16>((1U << left) - 1);
    const __m512 scale = _mm512_loadu_ps(w.scales + panel * kPanel + 16 * v);
    const __m512 bias =
        w.bias != nullptr ? _mm512_loadu_ps(w.bias + panel * kPanel + 16 * v) : _mm512_setzero_ps();
    for (int r = 0; r < R; ++r) {
      float* to = sink.out + (first + r) * sink.stride + 16 * v;
      __m512 y = _mm512_fmadd_ps(sum[r][v], scale, bias);
      if (sink.add) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, to));
      _mm512_mask_storeu_ps(to, mask, y);
    }
  }
}

}  // namespace

void int8_panel(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next) {
  const Sink sink{out, stride, width, add};
  // Blocks of nearly equal height: 5 rows are 3 + 2, not 4 + 1.
  const std::int64_t blocks = (rows + 3) / 4;
  const std::int64_t all_lines = kGroupBytes / 64;
  // The next panel is fetched in equal parts beside each block's products.
  const std::int64_t lines = next == nullptr ? 0 : (all_lines + blocks - 1) / blocks;
  const char* ahead = reinterpret_cast<const char*>(next);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = rows * b / blocks, n = rows * (b + 1) / blocks - first;
    const Prefetch fetch{ahead, b * lines < all_lines ? lines : 0};
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
      default:
        block<4>(w, panel, x, first, sink, fetch);
        break;
    }
    ahead += fetch.lines_per_group * 64 * x.groups;
  }
}

}  // namespace forerun::avx512

#endif  // __x86_64__
