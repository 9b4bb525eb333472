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
// Rows: 12 sums of 16 bits, two vectors of weights, one of a row and a mask fill the 16 registers.
// Sums of groups lie in memory then, which every group reads and writes once.
constexpr int kMost = 6;

struct Prefetch {
  const std::uint8_t* at;
  std::int64_t lines;  // for every group
};

inline __m256 from_half(const std::uint16_t* x) {
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(x)));
}

// Adds products of inputs [4 * First, 4 * Last) of a group, which is from input `at` on of each
// row. All of a group fits sums of 16 bits, 8 * 2 * 15 * 127; of codes of E2M1, whose levels are up
// to 24, half of one does.
template <int R, int First, int Last, bool E2m1>
inline void add_quads(__m256i (&dot)[R][2], const Int4Group& group,
                      const std::int8_t* const (&rows)[R], std::int64_t at) {
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 8
  for (int k = First; k < Last; ++k) {
    __m256i in[2];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m256i both = load_bytes(group.codes[k / 2][8 * h]);
      in[h] = _mm256_and_si256(k % 2 == 0 ? both : _mm256_srli_epi16(both, 4), low);
      if constexpr (E2m1) {
        const auto* const table = reinterpret_cast<const __m128i*>(kernel::kE2m1Levels);
        in[h] = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table)), in[h]);
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m256i a = spread(rows[r] + at + 4 * k);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        dot[r][h] = _mm256_add_epi16(dot[r][h], _mm256_maddubs_epi16(in[h], a));
        asm("" : "+x"(dot[r][h]));  // gcc 12 keeps products in memory to add them in another order
      }
    }
  }
}

// The integer products of a group with R rows, in 32 bits.
template <int R, bool E2m1>
inline void group_products(__m256i (&out)[R][2], const Int4Group& group,
                           const std::int8_t* const (&rows)[R], std::int64_t at) {
  constexpr int kQuads = kGroup / 4, kParts = E2m1 ? 2 : 1;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i dot[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
  add_quads<R, 0, kQuads / kParts, E2m1>(dot, group, rows, at);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) out[r][h] = _mm256_madd_epi16(dot[r][h], ones);
  }
  if constexpr (E2m1) {
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
    add_quads<R, kQuads / 2, kQuads, E2m1>(dot, group, rows, at);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        out[r][h] = _mm256_add_epi32(out[r][h], _mm256_madd_epi16(dot[r][h], ones));
      }
    }
  }
}

// R rows with the 16 outputs of vector `v` of a panel.
template <int R, bool E2m1>
void block(const Int4Panels& w, std::int64_t panel, int v, const Int8Rows& x, std::int64_t first,
           const Sink& sink, Prefetch next) {
  const std::int64_t groups = w.width / kGroup;
  const auto* group = reinterpret_cast<const Int4Group*>(w.data) + kVectors * panel * groups + v;
  const std::int8_t* rows[R];
  const kernel::GroupScale* scales[R];
  __m256 sum[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    rows[r] = x.values + (first + r) * w.width;
    scales[r] = x.groups + (first + r) * groups;
    sum[r][0] = sum[r][1] = _mm256_setzero_ps();
    asm("" : "+r"(rows[r]));  // gcc 12 computes them from one in every step
  }
  for (std::int64_t g = 0; g < groups; ++g, group += kVectors) {
    for (std::int64_t l = 0; l < next.lines; ++l) _mm_prefetch(next.at + 64 * l, _MM_HINT_T1);
    next.at += 64 * next.lines;
    __m256i dot[R][2];
    group_products<R, E2m1>(dot, *group, rows, g * kGroup);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m256 scale = from_half(group->scale + 8 * h);
      const __m256 least = from_half(group->least + 8 * h);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        const kernel::GroupScale& of = scales[r][g];
        const __m256 by = _mm256_mul_ps(scale, _mm256_set1_ps(of.scale));
        sum[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r][h]), by, sum[r][h]);
        sum[r][h] = _mm256_fmadd_ps(least, _mm256_set1_ps(of.sum), sum[r][h]);
      }
    }
  }
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const std::int64_t column = 16 * v + 8 * h, left = sink.width - column;
    if (left <= 0) break;
    const float* const bias = w.bias != nullptr ? w.bias + panel * kPanel + column : nullptr;
#pragma GCC unroll 6
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
  const std::int64_t most = (kLines + blocks - 1) / blocks;
  std::int64_t left = next != nullptr ? kLines : 0;
  Prefetch fetch{next, 0};
  each_block<kMost>(rows, [&](auto height, std::int64_t first, std::int64_t) {
    for (int v = 0; v < kVectors; ++v) {
      fetch.lines = least_of(most, left);
      left -= fetch.lines;
      constexpr int kHeight = decltype(height)::value;
      if (w.e2m1) {
        block<kHeight, true>(w, panel, v, x, first, sink, fetch);
      } else {
        block<kHeight, false>(w, panel, v, x, first, sink, fetch);
      }
      fetch.at += 64 * fetch.lines * (w.width / kGroup);
    }
  });
}

}  // namespace forerun::avx2

#endif  // __x86_64__
