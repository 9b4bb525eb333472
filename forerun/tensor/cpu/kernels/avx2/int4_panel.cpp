#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx2/int8_products.h"
#include "forerun/tensor/cpu/kernels/avx2/panel_output.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx2 {

using kernel::Int4Group;
using kernel::Int4Panels;
using kernel::Int8Rows;
using kernel::kGroup;
using kernel::kInt4GroupBytes;
using kernel::kPanel;

namespace {

constexpr std::int64_t kLines = kInt4GroupBytes / 64;  // of a group of all outputs
constexpr int kVectors = kPanel / 16;                  // of 16 outputs
constexpr int kMost = 4;  // rows: four sums of 16 bits and four of float, of the 16 registers

struct Prefetch {
  const std::uint8_t* at;  // whatever is there, if there is nothing to prefetch
  std::int64_t lines;      // for every group
};

inline __m256 from_half(const std::uint16_t* x) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(x)));
}

// Adds products of a group with R rows, for H halves of 8 of the 16 outputs from half `half` on.
// All of a group fits sums of 16 bits: 8 * 2 * 15 * 127.
template <int R, int H>
inline void add_group(__m256i (&dot)[R][H], const Int4Group& group, int half, const std::int8_t* x,
                      std::int64_t width) {
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 8
  for (int k = 0; k < kGroup / 4; ++k) {
    __m256i in[H];
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      const __m256i both = load_bytes(group.levels[k / 2][8 * (half + h)]);
      in[h] = _mm256_and_si256(k % 2 == 0 ? both : _mm256_srli_epi16(both, 4), low);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m256i a = spread(x + r * width + 4 * k);
#pragma GCC unroll 2
      for (int h = 0; h < H; ++h) {
        dot[r][h] = _mm256_add_epi16(dot[r][h], _mm256_maddubs_epi16(in[h], a));
        asm("" : "+x"(dot[r][h]));  // gcc 12 keeps products in memory to add them in another order
      }
    }
  }
}

// R rows with H halves of the 16 outputs of vector `v` of a panel.
template <int R, int H>
void block(const Int4Panels& w, std::int64_t panel, int v, int half, const Int8Rows& x,
           std::int64_t first, const Sink& sink, Prefetch next) {
  const std::int64_t groups = w.width / kGroup;
  const auto* group = reinterpret_cast<const Int4Group*>(w.data) + kVectors * panel * groups + v;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 sum[R][H];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) sum[r][h] = _mm256_setzero_ps();
  }
  for (std::int64_t g = 0; g < groups; ++g, group += kVectors) {
    for (std::int64_t l = 0; l < next.lines; ++l) _mm_prefetch(next.at + 64 * l, _MM_HINT_T1);
    next.at += 64 * next.lines;
    __m256i dot[R][H];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int h = 0; h < H; ++h) dot[r][h] = _mm256_setzero_si256();
    }
    add_group<R, H>(dot, *group, half, x.values + first * w.width + g * kGroup, w.width);
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      const __m256 scale = from_half(group->scale + 8 * (half + h));
      const __m256 least = from_half(group->least + 8 * (half + h));
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const kernel::GroupScale& of = x.groups[(first + r) * groups + g];
        const __m256 by = _mm256_mul_ps(scale, _mm256_set1_ps(of.scale));
        const __m256 products = _mm256_cvtepi32_ps(_mm256_madd_epi16(dot[r][h], ones));
        sum[r][h] = _mm256_fmadd_ps(products, by, sum[r][h]);
        sum[r][h] = _mm256_fmadd_ps(least, _mm256_set1_ps(of.sum), sum[r][h]);
      }
    }
  }
#pragma GCC unroll 2
  for (int h = 0; h < H; ++h) {
    const std::int64_t column = 16 * v + 8 * (half + h), left = sink.width - column;
    if (left <= 0) break;
    const float* const bias = w.bias != nullptr ? w.bias + panel * kPanel + column : nullptr;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m256 y =
          bias != nullptr ? _mm256_add_ps(sum[r][h], _mm256_loadu_ps(bias)) : sum[r][h];
      put(y, sink.out + (first + r) * sink.stride + column, left, sink.add);
    }
  }
}

}  // namespace

void int4_panel(const Int4Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next) {
  if (rows == 0) return;
  const Sink sink{out, stride, width, add};
  // The next panel is prefetched in equal parts during each block's products.
  const std::int64_t blocks = blocks_of(rows, kMost) * kVectors;
  Prefetch fetch{w.data, 0};
  if (next != nullptr) fetch = {next, (kLines + blocks - 1) / blocks};
  each_block<kMost>(rows, [&](auto height, std::int64_t first, std::int64_t) {
    constexpr int kHeight = decltype(height)::value;
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kHeight <= 2) {
        block<kHeight, 2>(w, panel, v, 0, x, first, sink, fetch);
      } else {
        block<kHeight, 1>(w, panel, v, 0, x, first, sink, fetch);
        block<kHeight, 1>(w, panel, v, 1, x, first, sink, {w.data, 0});
      }
      fetch.at += 64 * fetch.lines * (w.width / kGroup);
    }
  });
}

}  // namespace forerun::avx2

#endif  // __x86_64__
