#pragma once

// Weights that are fetched during the products of blocks of rows. Of several blocks each fetches a
// part of the next panel. A block alone may fetch what it comes to soon, a few lines at every step:
// AMD's processors drop a prefetch that finds no free miss buffer, as those of a burst do, on
// Intel's the products wait for one, and what the first-level cache gets is still there then.

#include <cstdint>
#include <type_traits>

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx512 {
namespace {

// Whether and into which cache a block of rows fetches; soon: shortly before the weights are
// needed.
enum class Fetch : std::uint8_t {
  kNone,
  kSecondLevel,
  kFirstLevel,
  kSoonSecondLevel,
  kSoonFirstLevel
};

constexpr bool is_soon(Fetch to) {
  return to == Fetch::kSoonSecondLevel || to == Fetch::kSoonFirstLevel;
}
// About so many lines before, of whole steps: a fifth of the first-level cache, or what is on its
// way from memory.
constexpr std::int64_t soon_lines(Fetch to) { return to == Fetch::kSoonFirstLevel ? 150 : 300; }

struct Prefetch {
  const char* at;
  std::int64_t lines;  // for every step of the products, at once

  // Of those that fetch soon: the end of the panel, and what comes after it until it has been
  // turned to.
  const char* end = nullptr;
  const char* then = nullptr;

  // Before the lines of a step.
  void turn() {
    if (then == nullptr || at < end) return;
    at = then + (at - end);
    then = nullptr;
  }
};

template <Fetch to>
inline void fetch_line(const char* at) {
  if constexpr (to == Fetch::kSecondLevel || to == Fetch::kSoonSecondLevel) {
    _mm_prefetch(at, _MM_HINT_T1);
  } else {
    _mm_prefetch(at, _MM_HINT_T0);
  }
}

// In part `k` of the `parts` of a step, which has `lines`: those that fetch soon do it in parts.
template <Fetch to>
inline void fetch_part(Prefetch& next, int k, int parts, int lines) {
  if constexpr (is_soon(to)) {
#pragma GCC unroll 4
    for (int l = k * lines / parts; l < (k + 1) * lines / parts; ++l, next.at += 64) {
      fetch_line<to>(next.at);
    }
    asm volatile("" : "+r"(next.at) : : "memory");  // or gcc puts the parts together
  }
}

// work(Height<n>, constant of type Fetch, first row, part) for blocks of rows.
// @param Lines  of a panel for every step, of which there are `steps`
// @param To     where several blocks fetch them to
// @param Alone  where a block alone does
// @param panel  that is multiplied
// @param next   the next panel; or null
template <int Most, std::int64_t Lines, Fetch To, Fetch Alone, class Work>
inline void each_block_ahead(std::int64_t rows, const std::uint8_t* panel, const std::uint8_t* next,
                             std::int64_t steps, const Work& work) {
  const std::int64_t blocks = blocks_of(rows, Most);
  const std::int64_t lines = next == nullptr ? 0 : (Lines + blocks - 1) / blocks;
  const char* ahead = reinterpret_cast<const char*>(next);
  if (is_soon(Alone) && blocks == 1 && next != nullptr) {
    const auto* const begin = reinterpret_cast<const char*>(panel);
    const std::int64_t bytes = Lines * 64 * steps;
    constexpr std::int64_t kSoon = soon_lines(Alone) / Lines * Lines * 64;
    const Prefetch soon{begin + least_of(kSoon, bytes), 0, begin + bytes, ahead};
    each_block<Most>(rows, [&](auto height, std::int64_t first, std::int64_t) {
      work(height, std::integral_constant<Fetch, Alone>(), first, soon);
    });
    return;
  }
  each_block<Most>(rows, [&](auto height, std::int64_t first, std::int64_t b) {
    const Prefetch part{ahead, b * lines < Lines ? lines : 0};
    if (part.lines > 0) {
      work(height, std::integral_constant<Fetch, To>(), first, part);
    } else {
      work(height, std::integral_constant<Fetch, Fetch::kNone>(), first, part);
    }
    ahead += part.lines * 64 * steps;
  });
}

}  // namespace
}  // namespace forerun::avx512
