#pragma once

// Weights of the next panel, fetched in equal parts during the products of each block of rows.

#include <type_traits>

#include "forerun/tensor/cpu/kernels/avx512/vectors.h"
#include "forerun/tensor/cpu/kernels/shared/tiles.h"

namespace forerun::avx512 {
namespace {

struct Prefetch {
  const char* at;
  std::int64_t lines;  // for every step of the products
};

// work(Height<n>, true or false: whether `part` is fetched, first row, part) for blocks of rows.
// @param Lines  of a panel for every step, of which there are `steps`
// @param next   the next panel; or null
template <int Most, std::int64_t Lines, class Work>
inline void each_block_ahead(std::int64_t rows, const std::uint8_t* next, std::int64_t steps,
                             const Work& work) {
  const std::int64_t blocks = blocks_of(rows, Most);
  const std::int64_t lines = next == nullptr ? 0 : (Lines + blocks - 1) / blocks;
  const char* ahead = reinterpret_cast<const char*>(next);
  each_block<Most>(rows, [&](auto height, std::int64_t first, std::int64_t b) {
    const Prefetch part{ahead, b * lines < Lines ? lines : 0};
    if (part.lines > 0) {
      work(height, std::true_type(), first, part);
    } else {
      work(height, std::false_type(), first, part);
    }
    ahead += part.lines * 64 * steps;
  });
}

}  // namespace
}  // namespace forerun::avx512
