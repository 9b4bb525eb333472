#include "forerun/tensor/cpu/kv_pages.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "forerun/tensor/cpu/aligned_buffer.h"

namespace forerun {

void KvPages::reserve(std::int64_t positions) {
  while (capacity() < positions) {
    // Entries after a sequence's end are read and have weight zero, whatever they are.
    pages_.push_back(arena_.make<std::uint8_t>(
        static_cast<std::size_t>(shape_.layers * shape_.heads * stride())));
  }
}

avx512::Rounded KvPages::round_head(const float* head, std::int64_t head_dim,
                                    std::int8_t* rounded) {
  thread_local AlignedBuffer<float> values;
  const std::int64_t dim = padded(head_dim);
  float* x = values.room_for(static_cast<std::size_t>(dim));
  std::copy_n(head, head_dim, x);
  std::fill(x + head_dim, x + dim, 0.0F);
  avx512::hadamard_row(x, dim, mixed(head_dim));
  return avx512::round_to_int8(x, dim, rounded);
}

void KvPages::write(std::int64_t layer, std::int64_t head, std::int64_t position, const float* k,
                    const float* v) {
  thread_local AlignedBuffer<std::int8_t> rounded_values;
  std::int8_t* rounded = rounded_values.room_for(static_cast<std::size_t>(dim_));
  const std::int64_t slot = position % avx512::kKeys;
  auto* keys = const_cast<std::uint8_t*>(this->keys(layer, head, position / avx512::kKeys));
  auto* values = reinterpret_cast<std::int8_t*>(keys + block()) + slot / 4 * 4 * dim_ + slot % 4;
  auto* scales = reinterpret_cast<float*>(keys + 2 * block());
  float key_scale = round_head(k, shape_.head_dim, rounded).scale;
  for (std::int64_t d = 0; d < dim_; d += 4) {
    std::uint32_t quad;
    std::memcpy(&quad, rounded + d, sizeof quad);
    quad ^= 0x80808080U;  // + 128
    std::memcpy(keys + (d / 4 * avx512::kKeys + slot) * 4, &quad, sizeof quad);
  }
  float value_scale = round_head(v, shape_.head_dim, rounded).scale;
  for (std::int64_t d = 0; d < dim_; ++d) values[4 * d] = rounded[d];
  if (std::isnan(value_scale)) {
    key_scale = std::numeric_limits<float>::quiet_NaN();
    value_scale = 0.0F;
  }
  scales[slot] = key_scale;
  scales[avx512::kKeys + slot] = value_scale;
}

}  // namespace forerun
