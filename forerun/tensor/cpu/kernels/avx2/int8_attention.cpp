#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx2/int8_products.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx2 {

using kernel::KeyProduct;
using kernel::kKeys;
using kernel::ValueProduct;

namespace {

constexpr int kMost = 4;  // rows: with 2 vectors 8 sums, 4 inputs and a broadcast one

inline void prefetch(const std::uint8_t* from, std::int64_t step) {
  if (from == nullptr) return;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) _mm_prefetch(from + 64 * (4 * step + i), _MM_HINT_T0);
}

// R rows with 16 keys from `key` on.
template <int R>
void key_tile(const KeyProduct& p, std::int64_t row, std::int64_t key) {
  const std::int64_t width = 4 * p.quads;
  const std::int8_t* q = p.q + row * width;
  const std::uint8_t* keys = p.keys + 4 * key;
  const bool fetch = row == 0 && key == 0;
  __m256i dot[R][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
  for (std::int64_t k = 0; k < p.quads; ++k, keys += 4 * kKeys) {
    const __m256i low = load_offset(keys), high = load_offset(keys + 32);
    if (fetch) {
      prefetch(p.next, k);
      prefetch(p.also, k);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Quad x = quad(q + r * width + 4 * k);
      dot[r][0] = add_quads(dot[r][0], x, low);
      dot[r][1] = add_quads(dot[r][1], x, high);
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    const __m256 scale = _mm256_load_ps(p.key_scales + key + 8 * v);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      _mm256_storeu_ps(p.out + (row + r) * p.stride + key + 8 * v,
                       _mm256_mul_ps(_mm256_cvtepi32_ps(dot[r][v]), scale));
    }
  }
}

// R rows, 16 columns. Sums fit 32 bits: 255 * 127 * 256 weights that are not zero.
template <int R>
void value_tile(const ValueProduct& p, std::int64_t row, std::int64_t column) {
  __m256i sum[R][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
  const std::uint8_t* weights = p.weights + row * p.stride;
  for (std::int64_t page = 0; page < p.pages; ++page) {
    const std::int8_t* values = p.values[page] + 4 * column;
    const bool fetch = p.next != nullptr && row == 0 && page == 0;
    for (std::int64_t k = 0; k < kKeys / 4; ++k, values += 4 * p.columns, weights += 4) {
      if (fetch) _mm_prefetch(p.next + 64 * (k + column / 16 * (kKeys / 4)), _MM_HINT_T0);
      const Halves low = signed_halves(load_bytes(values));
      const Halves high = signed_halves(load_bytes(values + 32));
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Halves w =
            unsigned_halves(_mm256_broadcastd_epi32(_mm_loadu_si32(weights + r * p.stride)));
        sum[r][0] = add_halves(sum[r][0], w, low);
        sum[r][1] = add_halves(sum[r][1], w, high);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const __m256 unit = _mm256_set1_ps(p.units[row + r]);
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      _mm256_storeu_ps(p.out + (row + r) * p.columns + column + 8 * v,
                       _mm256_mul_ps(_mm256_cvtepi32_ps(sum[r][v]), unit));
    }
  }
}

}  // namespace

void key_product(const KeyProduct& p) {
  each_block<kMost>(p.rows, [&](auto height, std::int64_t row, std::int64_t) {
    for (std::int64_t key = 0; key < kKeys; key += 16) {
      key_tile<decltype(height)::value>(p, row, key);
    }
  });
}

void value_product(const ValueProduct& p) {
  for (std::int64_t column = 0; column < p.columns; column += 16) {
    each_block<kMost>(p.rows, [&](auto height, std::int64_t row, std::int64_t) {
      value_tile<decltype(height)::value>(p, row, column);
    });
  }
}

}  // namespace forerun::avx2

#endif  // __x86_64__
