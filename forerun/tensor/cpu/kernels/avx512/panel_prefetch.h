#pragma once

// Weights that are fetched during the products of blocks of rows. Of several blocks each fetches a
// part of the next panel. A block alone that fetches into the first-level cache fetches what it
// comes to soon, so that it is still there then, and a few lines at every step: AMD's processors
// drop a prefetch that finds no free miss buffer, as those of a burst do.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx512 {
namespace {

// Whether and into which cache a block of rows fetches; kSoon: into the first-level one, shortly
// before the weights are needed.
enum class Fetch : std::uint8_t { kNone, kSecondLevel, kFirstLevel, kSoon };

constexpr std::int64_t kSoonLines = 150;  // about so many, of whole steps

struct Prefetch {
  const char* at;
  std::int64_t lines;  // for every step of the products, at once

  // Of kSoon: the end of the panel, and what comes after it until it has been turned to.
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
  if constexpr (to == Fetch::kSecondLevel) {
    _mm_prefetch(at, _MM_HINT_T1);
  } else {
    _mm_prefetch(at, _MM_HINT_T0);
  }
}

// In part `k` of the `parts` of a step, which has `lines`; kSoon alone fetches in parts.
template <Fetch to>
inline void fetch_part(Prefetch& next, int k, int parts, int lines) {
  if constexpr (to == Fetch::kSoon) {
#pragma GCC unroll 4
    for (int l = k * lines / parts; l < (k + 1) * lines / parts; ++l, next.at += 64) {
      fetch_line<to>(next.at);
    }
    asm volatile("" : "+r"(next.at) : : "memory");  // or gcc puts the parts together
  }
}

// work(Height<n>, constant of type Fetch, first row, part) for blocks of rows.
// @param Lines  of a panel for every step, of which there are `steps`
// @param To     where they are fetched to
// @param panel  that is multiplied
// @param next   the next panel; or null
template <int Most, std::int64_t Lines, Fetch To, class Work>
inline void each_block_ahead(std::int64_t rows, const std::uint8_t* panel, const std::uint8_t* next,
                             std::int64_t steps, const Work& work) {
  const std::int64_t blocks = blocks_of(rows, Most);
  const std::int64_t lines = next == nullptr ? 0 : (Lines + blocks - 1) / blocks;
  const char* ahead = reinterpret_cast<const char*>(next);
  if (To == Fetch::kFirstLevel && blocks == 1 && next != nullptr) {
    const auto* const begin = reinterpret_cast<const char*>(panel);
    const std::int64_t bytes = Lines * 64 * steps;
    constexpr std::int64_t kSoon = kSoonLines / Lines * Lines * 64;
    const Prefetch soon{begin + std::min(kSoon, bytes), 0, begin + bytes, ahead};
    each_block<Most>(rows, [&](auto height, std::int64_t first, std::int64_t) {
      work(height, std::integral_constant<Fetch, Fetch::kSoon>(), first, soon);
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
