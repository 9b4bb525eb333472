#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx512/int4_group.h"
#include "forerun/tensor/cpu/kernels/avx512/panel_output.h"
#include "forerun/tensor/cpu/kernels/avx512/panel_prefetch.h"
#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun::avx512 {

using kernel::Int4Group;
using kernel::Int4Panels;
using kernel::Int8Rows;
using kernel::kGroup;
using kernel::kInt4GroupBytes;

namespace {

constexpr int kLines = kInt4GroupBytes / 64;  // of a group of all outputs
constexpr int kMost = 4;     // rows: 12 integer and 12 float sums of the 32 registers
constexpr int kTallest = 8;  // of 24 integer sums, float sums in memory

// Before a group.
template <Fetch to>
inline void fetch(Prefetch& next) {
  if constexpr (to == Fetch::kNone) return;
  if constexpr (is_soon(to)) return next.turn();
  for (std::int64_t l = 0; l < next.lines; ++l) fetch_line<to>(next.at + 64 * l);
  next.at += 64 * next.lines;
}

// Adds the integer products of a group with R rows.
template <int R, Fetch Ahead, bool E2m1>
inline void add_group(__m512i (&dot)[R][kVectors], const Int4Group* group, const std::int8_t* x,
                      std::int64_t width, Prefetch& next) {
  constexpr int kSteps = kGroup / 4;
#pragma GCC unroll 8
  for (int k = 0; k < kSteps; ++k) {
    fetch_part<Ahead>(next, k, kSteps, kLines);
    __m512i in[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      in[v] = k % 2 == 0 ? levels<0, E2m1>(group[v], k / 2) : levels<4, E2m1>(group[v], k / 2);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i a = spread(x + r * width + 4 * k);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) add_products(dot[r][v], in[v], a);
    }
  }
}

// R rows with one panel.
template <int R, Fetch Ahead, bool E2m1>
[[gnu::noinline]] void block(const Int4Panels& w, std::int64_t panel, const Int8Rows& x,
                             std::int64_t first, const Sink& sink, Prefetch next) {
  const std::int64_t groups = w.width / kGroup;
  const auto* group = reinterpret_cast<const Int4Group*>(w.data) + kVectors * panel * groups;
  __m512 sum[R][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  for (std::int64_t g = 0; g < groups; ++g, group += kVectors) {
    fetch<Ahead>(next);
    __m512i dot[R][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) dot[r][v] = _mm512_setzero_si512();
    }
    add_group<R, Ahead, E2m1>(dot, group, x.values + first * w.width + g * kGroup, w.width, next);
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      const __m512 scale = from_half(group[v].scale), least = from_half(group[v].least);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const kernel::GroupScale& of = x.groups[(first + r) * groups + g];
        const __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(of.scale));
        sum[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][v]), by, sum[r][v]);
        sum[r][v] = _mm512_fmadd_ps(least, _mm512_set1_ps(of.sum), sum[r][v]);
      }
    }
  }
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    if (16 * v >= sink.width) break;
    const __m512 bias = bias_of(w.bias, panel, v);
    const __mmask16 mask = columns_mask(v, sink.width);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      put(w.bias != nullptr ? _mm512_add_ps(sum[r][v], bias) : sum[r][v], v, mask, sink, first + r);
    }
  }
}

// More rows: levels are unpacked once for all of them, and the float sums, which a group touches
// once, lie in memory.
template <int R, Fetch Ahead, bool E2m1>
[[gnu::noinline]] void tall_block(const Int4Panels& w, std::int64_t panel, const Int8Rows& x,
                                  std::int64_t first, const Sink& sink, Prefetch next) {
  const std::int64_t width = w.width, groups = width / kGroup;
  const auto* group = reinterpret_cast<const Int4Group*>(w.data) + kVectors * panel * groups;
  const std::int8_t* values = x.values + first * width;
  const kernel::GroupScale* scales = x.groups + first * groups;
  alignas(64) float sums[R][kVectors][16] = {};
  for (std::int64_t g = 0; g < groups; ++g, group += kVectors, values += kGroup, ++scales) {
    fetch<Ahead>(next);
    __m512i dot[R][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) dot[r][v] = _mm512_setzero_si512();
    }
    add_group<R, Ahead, E2m1>(dot, group, values, width, next);
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      const __m512 scale = from_half(group[v].scale), least = from_half(group[v].least);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const kernel::GroupScale& of = scales[r * groups];
        const __m512 by = _mm512_mul_ps(scale, _mm512_set1_ps(of.scale));
        const __m512 sum =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][v]), by, _mm512_load_ps(sums[r][v]));
        _mm512_store_ps(sums[r][v], _mm512_fmadd_ps(least, _mm512_set1_ps(of.sum), sum));
      }
    }
  }
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    if (16 * v >= sink.width) break;
    const __m512 bias = bias_of(w.bias, panel, v);
    const __mmask16 mask = columns_mask(v, sink.width);
    for (int r = 0; r < R; ++r) {
      const __m512 sum = _mm512_load_ps(sums[r][v]);
      put(w.bias != nullptr ? _mm512_add_ps(sum, bias) : sum, v, mask, sink, first + r);
    }
  }
}

template <Fetch to, Fetch alone, bool E2m1>
inline void panel_product_of(const Int4Panels& w, std::int64_t panel, const Int8Rows& x,
                             std::int64_t rows, const Sink& sink, const std::uint8_t* next) {
  if (rows == 0) return;
  const std::int64_t groups = w.width / kGroup;
  each_block_ahead<kTallest, kLines, to, alone>(
      rows, w.data + panel * groups * kInt4GroupBytes, next, groups,
      [&](auto height, auto ahead, std::int64_t first, const Prefetch& part) {
        constexpr int kHeight = decltype(height)::value;
        constexpr Fetch kAhead = decltype(ahead)::value;
        if constexpr (kHeight <= kMost) {
          block<kHeight, kAhead, E2m1>(w, panel, x, first, sink, part);
        } else {
          tall_block<kHeight, kAhead, E2m1>(w, panel, x, first, sink, part);
        }
      });
}

template <Fetch to, Fetch alone>
inline void panel_product(const Int4Panels& w, std::int64_t panel, const Int8Rows& x,
                          std::int64_t rows, const Sink& sink, const std::uint8_t* next) {
  if (w.e2m1) return panel_product_of<to, alone, true>(w, panel, x, rows, sink, next);
  panel_product_of<to, alone, false>(w, panel, x, rows, sink, next);
}

}  // namespace

void int4_panel(const Int4Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next) {
  const Sink sink = sink_of(out, stride, width, add, x.far);
  panel_product<Fetch::kSecondLevel, Fetch::kSecondLevel>(w, panel, x, rows, sink, next);
}

void int4_panel_soon(const Int4Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                     float* out, std::int64_t stride, std::int64_t width, bool add,
                     const std::uint8_t* next) {
  const Sink sink = sink_of(out, stride, width, add, x.far);
  panel_product<Fetch::kSecondLevel, Fetch::kSoonSecondLevel>(w, panel, x, rows, sink, next);
}

void int4_panel_near(const Int4Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                     float* out, std::int64_t stride, std::int64_t width, bool add,
                     const std::uint8_t* next) {
  const Sink sink = sink_of(out, stride, width, add, x.far);
  panel_product<Fetch::kFirstLevel, Fetch::kSoonFirstLevel>(w, panel, x, rows, sink, next);
}

}  // namespace forerun::avx512

#endif  // __x86_64__
