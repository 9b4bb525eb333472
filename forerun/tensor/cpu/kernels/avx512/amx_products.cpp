#if defined(__x86_64__)

// Products of several rows by AMX: tiles of 16 rows by 64 bytes in place of vectors. A product of
// tiles takes the time of eight of vectors and makes 16 times as many sums.

#include "forerun/tensor/cpu/kernels/avx512/amx_tiles.h"
#include "forerun/tensor/cpu/kernels/avx512/panel_output.h"
#include "forerun/tensor/cpu/kernels/kernels.h"

namespace forerun::avx512 {

using kernel::Int8Panels;
using kernel::Int8Rows;
using kernel::KeyProduct;
using kernel::kKeys;
using kernel::kPanel;
using kernel::ValueProduct;

void int8_panel_soon(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                     float* out, std::int64_t stride, std::int64_t width, bool add,
                     const std::uint8_t* next);
void key_product(const KeyProduct& p);
void value_product(const ValueProduct& p);

namespace amx {

void int8_panel(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next);
void key_product(const KeyProduct& p);
void value_product(const ValueProduct& p);
void begin_job();
void end_job();

namespace {

// Rows with weights: fewer are one block of vectors, which takes little more than reading the
// weights does; tiles would have to be loaded as well.
constexpr int kFewestRows = 10;
// Rows with keys or values of one key head: for fewer, vectors are faster in texts of up to some
// 1,000 tokens.
constexpr int kFewest = 13;

constexpr std::int64_t kQuads = kTileBytes / 4;         // of inputs, of a product
constexpr std::int64_t kTileLines = kQuads * kVectors;  // of a panel's weights for them
constexpr std::int64_t kTileValues = std::int64_t{kTileRows} * kTileRows;  // of sums

// Up to 16 rows with one panel.
// @param lines  to prefetch from `next` on
void block(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t first, int rows,
           const Sink& sink, const char* next, std::int64_t lines) {
  const std::uint8_t* weights = w.data + panel * kPanel * w.width;
  const std::int8_t* values = x.values + first * w.width;
  Ahead ahead(next, lines, kVectors * rows, w.width / kTileBytes);
  alignas(64) std::int32_t sums[kTileRows][kPanel];
  {
    const Tiles tiles(rows);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    for (std::int64_t i = 0; i < w.width; i += kTileBytes) {
      ahead.step();
      _tile_loadd(4, values + i, w.width);
      _tile_loadd(5, weights, kStepBytes);
      _tile_dpbsud(0, 4, 5);
      _tile_loadd(6, weights + 64, kStepBytes);
      _tile_dpbsud(1, 4, 6);
      _tile_loadd(5, weights + 128, kStepBytes);
      _tile_dpbsud(2, 4, 5);
      weights += kQuads * kStepBytes;
    }
    _tile_stored(0, sums[0], sizeof sums[0]);
    _tile_stored(1, sums[0] + 16, sizeof sums[0]);
    _tile_stored(2, sums[0] + 32, sizeof sums[0]);
  }
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t at = std::int64_t{16} * v;
    if (at >= sink.width) break;
    const Columns columns = columns_of(w, panel, v, sink.width);
    for (int r = 0; r < rows; ++r) {
      ahead.output();
      const __m512i dot = _mm512_add_epi32(_mm512_load_si512(sums[r] + at),
                                           _mm512_set1_epi32(x.scales[first + r].offset));
      put(dot, columns, x.scales[first + r].scale, sink, first + r);
    }
  }
}

inline void prefetch_page(const std::uint8_t* from, std::int64_t bytes) {
  if (from == nullptr) return;
  for (std::int64_t i = 0; i < bytes; i += 64) _mm_prefetch(from + i, _MM_HINT_T0);
}

// The four tiles of sums as [4][rows][16].
inline void store_sums(std::int32_t (*sums)[kTileValues]) {
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
}

inline void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

}  // namespace

void int8_panel(const Int8Panels& w, std::int64_t panel, const Int8Rows& x, std::int64_t rows,
                float* out, std::int64_t stride, std::int64_t width, bool add,
                const std::uint8_t* next) {
  if (rows < kFewestRows || w.width % kTileBytes != 0) {
    avx512::int8_panel_soon(w, panel, x, rows, out, stride, width, add, next);
    return;
  }
  const Sink sink = sink_of(out, stride, width, add, x.far);
  each_tile_ahead(rows, next, kTileLines * (w.width / kTileBytes),
                  [&](std::int64_t first, int n, const char* from, std::int64_t lines) {
                    block(w, panel, x, first, n, sink, from, lines);
                  });
}

void key_product(const KeyProduct& p) {
  if (p.rows < kFewest || p.quads % kQuads != 0) {
    avx512::key_product(p);
    return;
  }
  const std::int64_t width = 4 * p.quads;
  each_tile(p.rows, [&](std::int64_t first, int n, std::int64_t b) {
    alignas(64) std::int32_t sums[4][kTileValues];
    {
      const Tiles tiles(n);
      zero_sums();
      for (std::int64_t k = 0; k < p.quads; k += kQuads) {
        const std::uint8_t* keys = p.keys + k * 4 * kKeys;
        _tile_loadd(4, p.q + first * width + 4 * k, width);
        _tile_loadd(5, keys, 4 * kKeys);
        _tile_dpbsud(0, 4, 5);
        _tile_loadd(6, keys + 64, 4 * kKeys);
        _tile_dpbsud(1, 4, 6);
        _tile_loadd(5, keys + 128, 4 * kKeys);
        _tile_dpbsud(2, 4, 5);
        _tile_loadd(6, keys + 192, 4 * kKeys);
        _tile_dpbsud(3, 4, 6);
      }
      if (b == 0) {
        prefetch_page(p.next, width * kKeys);
        prefetch_page(p.also, width * kKeys);
      }
      store_sums(sums);
    }
    for (std::int64_t v = 0; v < 4; ++v) {
      const __m512 scale = _mm512_load_ps(p.key_scales + 16 * v);
      for (std::int64_t r = 0; r < n; ++r) {
        const __m512i dot = _mm512_add_epi32(_mm512_load_si512(sums[v] + 16 * r),
                                             _mm512_set1_epi32(p.starts[first + r]));
        _mm512_storeu_ps(p.out + (first + r) * p.stride + 16 * v,
                         _mm512_mul_ps(_mm512_cvtepi32_ps(dot), scale));
      }
    }
  });
}

void value_product(const ValueProduct& p) {
  if (p.rows < kFewest || p.columns % 64 != 0) {
    avx512::value_product(p);
    return;
  }
  for (std::int64_t column = 0; column < p.columns; column += 64) {
    each_tile(p.rows, [&](std::int64_t first, int n, std::int64_t b) {
      alignas(64) std::int32_t sums[4][kTileValues];
      {
        const Tiles tiles(n);
        zero_sums();
        for (std::int64_t page = 0; page < p.pages; ++page) {
          const std::int8_t* values = p.values[page] + 4 * column;
          _tile_loadd(4, p.weights + first * p.stride + page * kKeys, p.stride);
          _tile_loadd(5, values, 4 * p.columns);
          _tile_dpbusd(0, 4, 5);
          _tile_loadd(6, values + 64, 4 * p.columns);
          _tile_dpbusd(1, 4, 6);
          _tile_loadd(5, values + 128, 4 * p.columns);
          _tile_dpbusd(2, 4, 5);
          _tile_loadd(6, values + 192, 4 * p.columns);
          _tile_dpbusd(3, 4, 6);
        }
        if (b == 0 && column == 0) prefetch_page(p.next, p.columns * kKeys);
        store_sums(sums);
      }
      for (std::int64_t r = 0; r < n; ++r) {
        const __m512 unit = _mm512_set1_ps(p.units[first + r]);
        for (std::int64_t v = 0; v < 4; ++v) {
          const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums[v] + 16 * r));
          _mm512_storeu_ps(p.out + (first + r) * p.columns + column + 16 * v,
                           _mm512_mul_ps(sum, unit));
        }
      }
    });
  }
}

State& state() noexcept {
  thread_local constinit State of_thread{};
  return of_thread;
}

void begin_job() { state() = {.in_job = true, .configured = 0}; }

void end_job() {
  if (state().configured != 0) _tile_release();
  state() = {};
}

}  // namespace amx
}  // namespace forerun::avx512

#endif  // __x86_64__
