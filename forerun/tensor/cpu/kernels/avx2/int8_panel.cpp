#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx2/int8_products.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"
#include "forerun/tensor/cpu/kernels/shared/vector_math.h"

namespace forerun::avx2 {

using kernel::Int8Panels;
using kernel::Int8Rows;
using kernel::kPanel;

namespace {

constexpr std::int64_t kStepBytes = 4 * kPanel;  // weights of 4 inputs
constexpr std::int64_t kSteps = 4;               // unrolled: 16 inputs

struct Prefetch {
  const char* at;      // or null
  std::int64_t lines;  // for every 16 inputs
};

struct Sink {
  float* out;
  std::int64_t stride, width;
  bool add;
};

void put(const Int8Panels& w, std::int64_t output, float row_scale, __m256i dot, float* to,
         std::int64_t left, bool add) {
  const __m256 by = _mm256_mul_ps(_mm256_loadu_ps(w.scales + output), _mm256_set1_ps(row_scale));
  const __m256 bias = w.bias != nullptr ? _mm256_loadu_ps(w.bias + output) : _mm256_setzero_ps();
  __m256 y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), by, bias);
  if (left >= 8) {
    if (add) y = _mm256_add_ps(y, _mm256_loadu_ps(to));
    _mm256_storeu_ps(to, y);
    return;
  }
  const __m256i m = spread_mask(first_lanes(left)).low;
  if (add) y = _mm256_add_ps(y, _mm256_maskload_ps(to, m));
  _mm256_maskstore_ps(to, m, y);
}

// R rows with V vectors of 8 outputs of a panel, from vector `from` on. Sums are exact integers.
// One row takes the signs' way. For several rows the weights are split once, and the bytes + 128
// start at the rows' offsets: a sixth faster on Zen 4.
template <int R, int V>
void block(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t first,
           std::int64_t from, const Sink& sink, Prefetch next) {
  const std::uint8_t* weights = w.data + panel * kPanel * w.width + 32 * from;
  const std::int8_t* values = x.values + first * w.width;
  __m256i dot[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const __m256i start = R == 1 ? _mm256_setzero_si256() : _mm256_set1_epi32(x.offsets[first + r]);
#pragma GCC unroll 6
    for (int v = 0; v < V; ++v) dot[r][v] = start;
  }
  for (std::int64_t i = 0; i < w.width; i += 4 * kSteps) {
    for (std::int64_t l = 0; l < next.lines; ++l, next.at += 64) _mm_prefetch(next.at, _MM_HINT_T1);
    if constexpr (R == 1) {
#pragma GCC unroll 4
      for (int k = 0; k < kSteps; ++k, weights += kStepBytes) {
        const Quad a = quad(values + i + 4 * k);
#pragma GCC unroll 6
        for (int v = 0; v < V; ++v) {
          dot[0][v] = add_quads(dot[0][v], a, load_offset(weights + 32 * v));
        }
      }
    } else {
// Unrolled, the compiler would mix the steps and keep sums in memory.
#pragma GCC unroll 1
      for (int k = 0; k < kSteps; ++k, weights += kStepBytes) {
        Halves in[V];
#pragma GCC unroll 6
        for (int v = 0; v < V; ++v) in[v] = unsigned_halves(load_bytes(weights + 32 * v));
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const Halves a = signed_halves(spread(values + r * w.width + i + 4 * k));
#pragma GCC unroll 6
          for (int v = 0; v < V; ++v) dot[r][v] = add_halves(dot[r][v], in[v], a);
        }
      }
    }
  }
#pragma GCC unroll 6
  for (int v = 0; v < V; ++v) {
    const std::int64_t left = sink.width - 8 * (from + v);
    if (left <= 0) break;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      put(w, panel * kPanel + 8 * (from + v), x.scales[first + r], dot[r][v],
          sink.out + (first + r) * sink.stride + 8 * (from + v), left, sink.add);
    }
  }
}

}  // namespace

constexpr int kVectors = kPanel / 8;

void int8_panel(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next) {
  if (rows == 0) return;
  const Sink sink{out, stride, width, add};
  constexpr std::int64_t kLines = kSteps * kStepBytes / 64;
  const char* ahead = reinterpret_cast<const char*>(next);
  if (rows == 1) {
    block<1, kVectors>(w, panel, x, 0, 0, sink, {ahead, next == nullptr ? 0 : kLines});
    return;
  }
  // The next panel is prefetched in equal parts during each block's products.
  constexpr int kMost = 4, kWide = 2;
  const std::int64_t blocks = blocks_of(rows, kMost) * (kVectors / kWide);
  const std::int64_t lines = next == nullptr ? 0 : (kLines + blocks - 1) / blocks;
  std::int64_t b = 0;
  each_block<kMost>(rows, [&](auto height, std::int64_t first, std::int64_t) {
    for (std::int64_t v = 0; v < kVectors; v += kWide, ++b) {
      const Prefetch fetch{ahead, b * lines < kLines ? lines : 0};
      block<decltype(height)::value, kWide>(w, panel, x, first, v, sink, fetch);
      ahead += fetch.lines * 64 * (w.width / 16);
    }
  });
}

}  // namespace forerun::avx2

#endif  // __x86_64__
