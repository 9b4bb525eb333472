#include "forerun/models/internal/bf16_dots.h"

#include <cstddef>

#include "forerun/base/vector_clones.h"
#include "forerun/formats/half.h"

namespace forerun::internal {
namespace {

constexpr std::size_t kLanes = 16;
// Rows lie anywhere in memory: so many ahead they are asked for.
constexpr std::size_t kAhead = 24;

inline void prefetch(const std::uint16_t* row, std::size_t width) {
  constexpr std::size_t kLine = 64 / sizeof(std::uint16_t);
  for (std::size_t k = 0; k < width; k += kLine) __builtin_prefetch(row + k);
}

// Halves onto each other: the order of the sums is the same for vectors of any size.
inline float sum(float (&lanes)[kLanes]) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

}  // namespace

FORERUN_VECTOR_CLONES void add_dots(std::span<const float> from, const std::uint16_t* table,
                                    std::span<const std::int32_t> ids,
                                    std::span<float> add) noexcept {
  const std::size_t width = from.size();
  const float* const a = from.data();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) {
      prefetch(table + static_cast<std::size_t>(ids[i + kAhead]) * width, width);
    }
    const std::uint16_t* const b = table + static_cast<std::size_t>(ids[i]) * width;
    float lanes[kLanes] = {};
    std::size_t k = 0;
    for (; k + kLanes <= width; k += kLanes) {
#pragma omp simd
      for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += a[k + j] * float_of_bf16(b[k + j]);
    }
    for (; k < width; ++k) lanes[0] += a[k] * float_of_bf16(b[k]);
    add[i] += sum(lanes);
  }
}

}  // namespace forerun::internal
