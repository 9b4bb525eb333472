#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx512/panel_output.h"
#include "forerun/tensor/cpu/kernels/avx512/panel_prefetch.h"
#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun::avx512 {

using kernel::Int8Panels;
using kernel::Int8Rows;
using kernel::kPanel;

namespace {

constexpr int kSteps = 4;                  // unrolled: 16 inputs
constexpr int kLines = kSteps * kVectors;  // of their weights
constexpr int kMost = 8;  // rows: 24 sums, 3 weights and an input of the 32 registers
// Fewer blocks are better where they fetch into the first-level cache, and nine rows where a block
// alone fetches soon: 27 sums and the same; alone, 30 sums and a weight.
constexpr int kMostSpread = 9, kMostAlone = 10;

// Before 16 inputs.
template <Fetch to>
inline void fetch(Prefetch& next) {
  if constexpr (to == Fetch::kNone) return;
  if constexpr (is_soon(to)) return next.turn();
  if (next.lines == kLines) {  // of one block: a loop of unknown length costs 2% of a pass
#pragma GCC unroll 12
    for (std::int64_t l = 0; l < kLines; ++l) fetch_line<to>(next.at + 64 * l);
  } else {
    for (std::int64_t l = 0; l < next.lines; ++l) fetch_line<to>(next.at + 64 * l);
  }
  next.at += 64 * next.lines;
}

// Products of 4 inputs of R rows, `width` apart.
template <int R>
inline void add_step(__m512i (&dot)[R][kVectors], const std::uint8_t* weights,
                     const std::int8_t* values, std::int64_t width) {
  if constexpr (R > kMostSpread) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      const __m512i in = _mm512_load_si512(weights + 64 * v);
#pragma GCC unroll 10
      for (int r = 0; r < R; ++r) add_products_of(dot[r][v], in, values + r * width);
    }
    return;
  }
  __m512i in[kVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) in[v] = _mm512_load_si512(weights + 64 * v);
#pragma GCC unroll 10
  for (int r = 0; r < R; ++r) {
    const __m512i a = spread(values + r * width);
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) add_products(dot[r][v], in[v], a);
  }
}

// R rows with one panel. Sums are exact integers. Not inlined: gcc 12 then makes loops of three and
// four rows that take a quarter longer.
// @param Ahead  where `next` is prefetched to
template <int R, Fetch Ahead>
[[gnu::noinline]] void block(const Int8Panels& w, std::int64_t panel, const Int8Rows& x,
                             std::int64_t first, const Sink& sink, Prefetch next) {
  const std::uint8_t* weights = w.data + panel * kPanel * w.width;
  const std::int8_t* values = x.values + first * w.width;
  __m512i dot[R][kVectors];
#pragma GCC unroll 10
  for (int r = 0; r < R; ++r) {
    const __m512i start = _mm512_set1_epi32(x.scales[first + r].offset);
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) dot[r][v] = start;
  }
  for (std::int64_t i = 0; i < w.width; i += 4 * kSteps) {
    fetch<Ahead>(next);
#pragma GCC unroll 4
    for (int k = 0; k < kSteps; ++k, weights += kStepBytes) {
      fetch_part<Ahead>(next, k, kSteps, kLines);
      add_step(dot, weights, values + i + 4 * k, w.width);
    }
  }
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    if (16 * v >= sink.width) break;
    const Columns columns = columns_of(w, panel, v, sink.width);
#pragma GCC unroll 10
    for (int r = 0; r < R; ++r) put(dot[r][v], columns, x.scales[first + r].scale, sink, first + r);
  }
}

template <Fetch to, Fetch alone, int most>
inline void panel_product(const Int8Panels& w, std::int64_t panel, const Int8Rows& x,
                          std::int64_t rows, const Sink& sink, const std::uint8_t* next) {
  if (rows == 0) return;
  each_block_ahead<most, kLines, to, alone>(
      rows, w.data + panel * kPanel * w.width, next, w.width / 16,
      [&](auto height, auto ahead, std::int64_t first, const Prefetch& part) {
        block<decltype(height)::value, decltype(ahead)::value>(w, panel, x, first, sink, part);
      });
}

// The same with `highest` rows as one block too.
template <Fetch to, Fetch alone, int most, int highest>
inline void soon_product(const Int8Panels& w, std::int64_t panel, const Int8Rows& x,
                         std::int64_t rows, const Sink& sink, const std::uint8_t* next) {
  if (rows == highest) {
    panel_product<to, alone, highest>(w, panel, x, rows, sink, next);
  } else {
    panel_product<to, alone, most>(w, panel, x, rows, sink, next);
  }
}

}  // namespace

void int8_panel(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next) {
  const Sink sink = sink_of(out, stride, width, add, x.far);
  panel_product<Fetch::kSecondLevel, Fetch::kSecondLevel, kMost>(w, panel, x, rows, sink, next);
}

void int8_panel_soon(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                     float* out, std::int64_t stride, std::int64_t width, bool add,
                     const std::uint8_t* next) {
  const Sink sink = sink_of(out, stride, width, add, x.far);
  soon_product<Fetch::kSecondLevel, Fetch::kSoonSecondLevel, kMost, kMostSpread>(w, panel, x, rows,
                                                                                 sink, next);
}

void int8_panel_near(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                     float* out, std::int64_t stride, std::int64_t width, bool add,
                     const std::uint8_t* next) {
  const Sink sink = sink_of(out, stride, width, add, x.far);
  soon_product<Fetch::kFirstLevel, Fetch::kSoonFirstLevel, kMostSpread, kMostAlone>(
      w, panel, x, rows, sink, next);
}

}  // namespace forerun::avx512

#endif  // __x86_64__
