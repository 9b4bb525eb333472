#include "forerun/tensor/cpu/kv_pages.h"

#include <algorithm>
#include <array>

namespace forerun {
namespace {

constexpr std::uint16_t kInfinity = 0x7f80, kNan = 0x7fc0;  // bf16

}  // namespace

void KvPages::reserve(std::int64_t positions) {
  while (capacity() < positions) {
    // Zeros: what stands behind a lane's end is read, weighted with nothing, and must be finite.
    pages_.push_back(arena_.make<std::uint16_t>(
        static_cast<std::size_t>(shape_.layers * shape_.heads * 2 * block())));
  }
}

void KvPages::write(std::int64_t layer, std::int64_t head, std::int64_t position, const float* k,
                    const float* v) {
  const std::int64_t slot = position % avx512::kKeys, dim = padded(shape_.head_dim);
  std::uint16_t* keys =
      pages_[static_cast<std::size_t>(position / avx512::kKeys)].get() + offset(layer, head);
  std::uint16_t* values = keys + block() + slot / 2 * 2 * dim + slot % 2;
  std::array<std::uint16_t, 64> rounded;
  bool finite = true;
  for (std::int64_t first = 0; first < shape_.head_dim; first += 64) {
    const std::int64_t n = std::min<std::int64_t>(64, shape_.head_dim - first);
    avx512::round_to_bf16(k + first, n, 1.0F, rounded.data());
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t d = first + j;
      keys[(d / 2 * avx512::kKeys + slot) * 2 + d % 2] = rounded[static_cast<std::size_t>(j)];
    }
    avx512::round_to_bf16(v + first, n, 1.0F, rounded.data());
    for (std::int64_t j = 0; j < n; ++j) {
      const std::uint16_t bits = rounded[static_cast<std::size_t>(j)];
      finite &= (bits & kInfinity) != kInfinity;
      values[2 * (first + j)] = bits;
    }
  }
  if (finite) return;
  for (std::int64_t d = 0; d < shape_.head_dim; ++d) {
    keys[(d / 2 * avx512::kKeys + slot) * 2 + d % 2] = kNan;
    values[2 * d] = 0;
  }
}

}  // namespace forerun
