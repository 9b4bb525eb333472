#if defined(__x86_64__)

// 4-bit weights by AMX: of each group of inputs a product of tiles makes the integer sums of up to
// 16 rows, which vectors scale and add. Beside products of tiles vectors have one port in place of
// two, so this gains less than it does for bytes.

#include "forerun/tensor/cpu/kernels/avx512/amx_tiles.h"
#include "forerun/tensor/cpu/kernels/avx512/int4_group.h"
#include "forerun/tensor/cpu/kernels/avx512/panel_output.h"
#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun::avx512 {

using kernel::Int4Group;
using kernel::Int4Panels;
using kernel::Int8Rows;
using kernel::kGroup;
using kernel::kInt4GroupBytes;

void int4_panel_soon(const Int4Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                     float* out, std::int64_t stride, std::int64_t width, bool add,
                     const std::uint8_t* next);

namespace amx {

void int4_panel(const Int4Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next);

namespace {

constexpr std::int64_t kLines = kInt4GroupBytes / 64;  // of a group of all outputs
constexpr int kQuads = kGroup / 4;
constexpr int kFewestGrouped = 25;  // rows: vectors are as fast for 16, faster for fewer and for 20

// Tiles wait until what they read has left the store buffer, behind what was stored before: levels
// become bytes some groups before their product, and sums are read two groups after it.
constexpr std::int64_t kLevels = 8, kSums = 4;

struct alignas(64) Work {
  std::uint8_t levels[kLevels][kQuads][16][4];
  std::int32_t sums[kSums][kTileRows][16];
};

template <bool E2m1>
inline void widen(const Int4Group& group, std::uint8_t (*to)[16][4]) {
#pragma GCC unroll 4
  for (int p = 0; p < kQuads / 2; ++p) {
    _mm512_store_si512(to[2 * p], levels<0, E2m1>(group, p));
    _mm512_store_si512(to[2 * p + 1], levels<4, E2m1>(group, p));
  }
}

using RowBytes = std::int8_t[kTileRows << 16];  // those of 16 rows lie within

// Tile 0 = rows times levels. In assembly, as is its store, since gcc 12's intrinsics do not say
// what memory they read, and say that they may write all: float sums would not stay in registers.
// @param x  a group of the first row; others follow at a distance of `width` bytes
inline void multiply(const std::int8_t* x, std::int64_t width,
                     const std::uint8_t (&by)[kQuads][16][4]) {
  asm volatile(
      "tileloadd (%[x], %[width]), %%tmm4\n\t"
      "tileloadd (%[by], %[line]), %%tmm5\n\t"
      "tilezero %%tmm0\n\t"
      "tdpbsud %%tmm5, %%tmm4, %%tmm0"
      :
      : [x] "r"(x), "m"(*reinterpret_cast<const RowBytes*>(x)), [width] "r"(width), [by] "r"(&by),
        "m"(by), [line] "r"(std::int64_t{64}));
}

inline void store(std::int32_t (&sums)[kTileRows][16]) {
  asm volatile("tilestored %%tmm0, (%[sums], %[line])"
               : "=m"(sums)
               : [sums] "r"(&sums), [line] "r"(std::int64_t{64}));
}

// R rows with 16 outputs of a panel.
template <int R, bool E2m1>
[[gnu::noinline]] void block(const Int4Panels& w, std::int64_t panel, int v, const Int8Rows& x,
                             std::int64_t first, const Sink& sink, Ahead& ahead) {
  const std::int64_t width = w.width, groups = width / kGroup;
  const auto* group = reinterpret_cast<const Int4Group*>(w.data) + kVectors * panel * groups + v;
  const std::int8_t* values = x.values + first * width;
  const kernel::GroupScale* scales = x.groups + first * groups;
  Work work;
  __m512 sum[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) sum[r] = _mm512_setzero_ps();
  for (std::int64_t g = 0; g < least_of(groups, kLevels); ++g) {
    widen<E2m1>(group[kVectors * g], work.levels[g]);
  }
  for (std::int64_t g = 0; g < least_of(groups, 2); ++g) {
    multiply(values + g * kGroup, width, work.levels[g]);
    store(work.sums[g]);
  }
  for (std::int64_t g = 0; g < groups; ++g, ++scales) {
    ahead.step();
    if (g + 2 < groups) multiply(values + (g + 2) * kGroup, width, work.levels[(g + 2) % kLevels]);
    if (g + kLevels < groups)
      widen<E2m1>(group[kVectors * (g + kLevels)], work.levels[g % kLevels]);
    const Int4Group& of = group[kVectors * g];
    const __m512 scale = from_half(of.scale), least = from_half(of.least);
    const auto& dots = work.sums[g % kSums];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const kernel::GroupScale& row = scales[r * groups];
      const __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(dots[r]));
      sum[r] = _mm512_fmadd_ps(dot, _mm512_mul_ps(scale, _mm512_set1_ps(row.scale)), sum[r]);
      sum[r] = _mm512_fmadd_ps(least, _mm512_set1_ps(row.sum), sum[r]);
    }
    if (g + 2 < groups) store(work.sums[(g + 2) % kSums]);
  }
  const __m512 bias = bias_of(w.bias, panel, v);
  const __mmask16 mask = columns_mask(v, sink.width);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    ahead.output();
    put(w.bias != nullptr ? _mm512_add_ps(sum[r], bias) : sum[r], v, mask, sink, first + r);
  }
}

}  // namespace

void int4_panel(const Int4Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next) {
  if (rows < kFewestGrouped) {
    avx512::int4_panel_soon(w, panel, x, rows, out, stride, width, add, next);
    return;
  }
  const Sink sink = sink_of(out, stride, width, add, x.far);
  const std::int64_t groups = w.width / kGroup;
  const auto some = [&](std::int64_t first, int n, const char* from, std::int64_t lines) {
    Ahead ahead(from, lines, std::int64_t{kVectors} * n, kVectors * groups);
    const Tiles tiles(n, Inputs::kGroup);
    with_height<kTileRows>(n, [&](auto height) {
      constexpr int kHeight = decltype(height)::value;
      if constexpr (kHeight >= 11) {  // of 33 rows; no block has fewer
        for (int v = 0; v < kVectors && 16 * v < width; ++v) {
          if (w.e2m1) {
            block<kHeight, true>(w, panel, v, x, first, sink, ahead);
          } else {
            block<kHeight, false>(w, panel, v, x, first, sink, ahead);
          }
        }
      }
    });
  };
  each_tile_ahead(rows, next, kLines * groups, some);
}

}  // namespace amx
}  // namespace forerun::avx512

#endif  // __x86_64__
