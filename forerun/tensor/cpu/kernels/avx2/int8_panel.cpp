#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx2/int8_products.h"
#include "forerun/tensor/cpu/kernels/avx2/panel_output.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx2 {

using kernel::Int8Panels;
using kernel::Int8Rows;
using kernel::kPanel;

namespace {

constexpr std::int64_t kStepBytes = 4 * kPanel;  // weights of 4 inputs
constexpr int kVectors = kPanel / 8;

struct Prefetch {
  const std::uint8_t* at;  // whatever is there, if there is nothing to prefetch
  std::int64_t step;       // bytes for every 4 inputs; a line may be asked for several times
};

void put(const Int8Panels& w, std::int64_t output, float row_scale, __m256i dot, float* to,
         std::int64_t left, bool add) {
  const __m256 by = _mm256_mul_ps(_mm256_loadu_ps(w.scales + output), _mm256_set1_ps(row_scale));
  const __m256 bias = w.bias != nullptr ? _mm256_loadu_ps(w.bias + output) : _mm256_setzero_ps();
  put(_mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), by, bias), to, left, add);
}

// The signs' way: nothing of the weights is worth keeping for another row.
void row_block(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, const Sink& sink,
               const std::uint8_t* next) {
  const std::uint8_t* weights = w.data + panel * kPanel * w.width;
  __m256i dot[kVectors];
#pragma GCC unroll 6
  for (int v = 0; v < kVectors; ++v) dot[v] = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < w.width; i += 4, weights += kStepBytes) {
    if (next != nullptr) {
#pragma GCC unroll 3
      for (int line = 0; line < 3; ++line) {
        _mm_prefetch(next + i * kPanel + 64 * line, _MM_HINT_T1);
      }
    }
    const Quad a = quad(x.values + i);
#pragma GCC unroll 6
    for (int v = 0; v < kVectors; ++v) {
      dot[v] = add_quads(dot[v], a, load_offset(weights + 32 * v));
    }
  }
#pragma GCC unroll 6
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t left = sink.width - 8 * v;
    if (left <= 0) break;
    put(w, panel * kPanel + 8 * v, x.scales[0].scale, dot[v], sink.out + 8 * v, left, sink.add);
  }
}

// R rows with V vectors of 8 outputs of a panel, from vector `from` on. Sums are exact integers.
// The weights are split once for all rows, the rows when they were rounded, and the bytes + 128
// start at the rows' offsets.
template <int R, int V>
void block(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t first,
           std::int64_t from, const Sink& sink, Prefetch next) {
  const std::uint8_t* weights = w.data + panel * kPanel * w.width + 32 * from;
  const std::int16_t* halves = x.halves + first * w.width;
  __m256i dot[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 6
    for (int v = 0; v < V; ++v) dot[r][v] = _mm256_set1_epi32(x.scales[first + r].offset);
  }
// Unrolled, the compiler would mix the steps and keep sums in memory.
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < w.width; i += 4, weights += kStepBytes, next.at += next.step) {
    _mm_prefetch(next.at, _MM_HINT_T1);
    Halves in[V];
#pragma GCC unroll 6
    for (int v = 0; v < V; ++v) in[v] = unsigned_halves(load_bytes(weights + 32 * v));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const std::int16_t* at = halves + r * w.width + i;
      const Halves a{spread(at), spread(at + 2)};
#pragma GCC unroll 6
      for (int v = 0; v < V; ++v) dot[r][v] = add_halves(dot[r][v], in[v], a);
    }
  }
#pragma GCC unroll 6
  for (int v = 0; v < V; ++v) {
    const std::int64_t left = sink.width - 8 * (from + v);
    if (left <= 0) break;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      put(w, panel * kPanel + 8 * (from + v), x.scales[first + r].scale, dot[r][v],
          sink.out + (first + r) * sink.stride + 8 * (from + v), left, sink.add);
    }
  }
}

}  // namespace

void int8_panel(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next) {
  if (rows == 0) return;
  const Sink sink{out, stride, width, add};
  if (rows == 1) {
    row_block(w, panel, x, sink, next);
    return;
  }
  // The next panel is prefetched in equal parts during each block's products.
  constexpr int kMost = 4, kWide = 2;
  const std::int64_t blocks = blocks_of(rows, kMost) * (kVectors / kWide);
  const std::uint8_t* const here = w.data + panel * kPanel * w.width;
  Prefetch fetch{here, 0};
  if (next != nullptr) fetch = {next, (kStepBytes + blocks - 1) / blocks};
  std::int64_t fetched = 0;  // bytes for every 4 inputs
  each_block<kMost>(rows, [&](auto height, std::int64_t first, std::int64_t) {
    for (std::int64_t v = 0; v < kVectors; v += kWide) {
      block<decltype(height)::value, kWide>(w, panel, x, first, v, sink, fetch);
      fetch.at += fetch.step * (w.width / 4);
      fetched += fetch.step;
      if (fetched >= kStepBytes) fetch = {here, 0};
    }
  });
}

}  // namespace forerun::avx2

#endif  // __x86_64__
