#pragma once

// Tiles of AMX: their configuration, kept during a job, and blocks of rows for them.

#include <cstdint>

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx512::amx {

// The tiles of this thread. Others (oneDNN) use tiles as well, so they stay configured in a job
// alone, where nothing else runs.
struct State {
  bool in_job;
  int configured;  // which of the configurations, or 0
};
State& state() noexcept;

namespace {

constexpr int kTileRows = 16;
constexpr std::int64_t kTileBytes = 64;  // of a row

// What a product of tiles takes of each row, in bytes: a tile's row, or a group of int4's.
enum class Inputs : std::uint8_t { kLine, kGroup };

// Tiles 0 to 3 are sums, 4 rows, 5 and 6 what they are multiplied by.
struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {kTileBytes, kTileBytes, kTileBytes, kTileBytes,
                             kTileBytes, kTileBytes, kTileBytes};
  std::uint8_t rows[16] = {};
};

struct Configurations {
  Configuration of[2 * kTileRows + 1];  // by rows, of lines and after them of groups
};

constexpr Configurations all_configurations() {
  Configurations all;
  for (int n = 1; n <= 2 * kTileRows; ++n) {
    Configuration& c = all.of[n];
    const bool groups = n > kTileRows;
    const int rows = groups ? n - kTileRows : n;
    for (int tile = 0; tile < 5; ++tile) c.rows[tile] = static_cast<std::uint8_t>(rows);
    c.rows[5] = c.rows[6] = groups ? kernel::kGroup / 4 : kTileRows;
    if (groups) c.bytes[4] = kernel::kGroup;
  }
  return all;
}

constexpr Configurations kConfigurations = all_configurations();

class Tiles {
 public:
  explicit Tiles(int rows, Inputs inputs = Inputs::kLine) : state_(state()) {
    // gcc 12's intrinsics do not say what memory they read.
    asm volatile("" ::: "memory");
    const int wanted = inputs == Inputs::kGroup ? kTileRows + rows : rows;
    if (state_.configured == wanted) return;
    _tile_loadconfig(&kConfigurations.of[wanted]);
    if (state_.in_job) state_.configured = wanted;
  }
  ~Tiles() {
    if (!state_.in_job) _tile_release();
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

 private:
  State& state_;
};

// work(first row, rows, block) for blocks of at most 16 rows.
template <class Work>
inline void each_tile(std::int64_t rows, const Work& work) {
  const std::int64_t blocks = blocks_of(rows, kTileRows);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = rows * b / blocks;
    work(first, static_cast<int>(rows * (b + 1) / blocks - first), b);
  }
}

// work(first row, rows, from where on and how many lines to prefetch): the next panel, or none, in
// equal parts during each block's products.
template <class Work>
inline void each_tile_ahead(std::int64_t rows, const std::uint8_t* next, std::int64_t next_lines,
                            const Work& work) {
  const std::int64_t blocks = blocks_of(rows, kTileRows), lines = next == nullptr ? 0 : next_lines;
  each_tile(rows, [&](std::int64_t first, int n, std::int64_t b) {
    const std::int64_t from = lines * b / blocks, to = lines * (b + 1) / blocks;
    work(first, n, reinterpret_cast<const char*>(next) + 64 * from, to - from);
  });
}

// Lines of a panel to prefetch, from where on: some in each step of a product, the others while the
// sums are written, for which memory would wait.
class Ahead {
 public:
  static constexpr std::int64_t kPerOutput = 2;  // vectors of outputs

  Ahead(const char* from, std::int64_t lines, std::int64_t outputs, std::int64_t steps)
      : next_(from),
        end_(from + 64 * lines),
        per_step_(lines > kPerOutput * outputs ? (lines - kPerOutput * outputs) / steps : 0) {}
  void step() { fetch(per_step_); }
  void output() {
    const std::int64_t left = (end_ - next_) / 64;
    fetch(left < kPerOutput ? left : kPerOutput);
  }

 private:
  void fetch(std::int64_t lines) {
    for (std::int64_t l = 0; l < lines; ++l, next_ += 64) _mm_prefetch(next_, _MM_HINT_T1);
  }
  const char *next_, *end_;
  std::int64_t per_step_;
};

}  // namespace
}  // namespace forerun::avx512::amx
