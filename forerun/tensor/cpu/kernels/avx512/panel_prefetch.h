#pragma once

// Weights of the next panel, fetched in equal parts during the products of each block of rows.

#include <cstdint>
#include <type_traits>

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx512 {
namespace {

// Whether and into which cache a block of rows fetches its part.
enum class Fetch : std::uint8_t { kNone, kSecondLevel, kFirstLevel };

struct Prefetch {
  const char* at;
  std::int64_t lines;  // for every step of the products
};

template <Fetch to>
inline void fetch_line(const char* at) {
  if constexpr (to == Fetch::kFirstLevel) {
    _mm_prefetch(at, _MM_HINT_T0);
  } else {
    _mm_prefetch(at, _MM_HINT_T1);
  }
}

// work(Height<n>, constant of type Fetch, first row, part) for blocks of rows.
// @param Lines  of a panel for every step, of which there are `steps`
// @param To     where they are fetched to
// @param next   the next panel; or null
template <int Most, std::int64_t Lines, Fetch To, class Work>
inline void each_block_ahead(std::int64_t rows, const std::uint8_t* next, std::int64_t steps,
                             const Work& work) {
  const std::int64_t blocks = blocks_of(rows, Most);
  const std::int64_t lines = next == nullptr ? 0 : (Lines + blocks - 1) / blocks;
  const char* ahead = reinterpret_cast<const char*>(next);
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
