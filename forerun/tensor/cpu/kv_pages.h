#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "forerun/tensor/cpu/arena.h"
#include "forerun/tensor/cpu/avx512/int8_attention.h"
#include "forerun/tensor/cpu/avx512/kernels.h"

namespace forerun {

/// Keys and values of one sequence in int8, one scale for a position and head, in pages of 64
/// positions. A page holds all layers, and for each layer and head the keys as [dim / 4][64][4],
/// the values as [16][dim][4] and the scales of both: in the order in which attention reads them.
/// Both are stored times a Hadamard matrix, so that a few large values do not cost the others
/// precision. Growing adds pages and copies nothing.
class KvPages {
 public:
  struct Shape {
    std::int64_t layers, heads, head_dim;
  };
  explicit KvPages(Shape shape) noexcept : shape_(shape), dim_(padded(shape.head_dim)) {}

  /// Values of a head, padded to a multiple of 16.
  static std::int64_t padded(std::int64_t head_dim) noexcept { return (head_dim + 15) / 16 * 16; }
  /// Values of a head under one Hadamard matrix: the largest power of two that divides them.
  static std::int64_t mixed(std::int64_t head_dim) noexcept {
    return padded(head_dim) & -padded(head_dim);
  }

  /// Rotates the values of a head, padded, and rounds them to `rounded` [padded(head_dim)]: for
  /// keys, values and queries.
  static avx512::Rounded round_head(const float* head, std::int64_t head_dim, std::int8_t* rounded);

  void reserve(std::int64_t positions);
  std::int64_t capacity() const noexcept {
    return static_cast<std::int64_t>(pages_.size()) * avx512::kKeys;
  }

  /// Stores one position of one head; `k` and `v` are [head_dim] float32. A value that is not
  /// finite makes the key NaN: rows that see the position get NaN, the others do not (zero times
  /// infinity would not be zero).
  void write(std::int64_t layer, std::int64_t head, std::int64_t position, const float* k,
             const float* v);

  /// A page of a layer and head: [dim / 4][64][4], each + 128.
  const std::uint8_t* keys(std::int64_t layer, std::int64_t head,
                           std::int64_t page) const noexcept {
    return pages_[static_cast<std::size_t>(page)].get() + (layer * shape_.heads + head) * stride();
  }
  /// [16][dim][4]
  const std::int8_t* values(std::int64_t layer, std::int64_t head,
                            std::int64_t page) const noexcept {
    return reinterpret_cast<const std::int8_t*>(keys(layer, head, page) + block());
  }
  /// [64]; those of the values follow: [64]
  const float* key_scales(std::int64_t layer, std::int64_t head, std::int64_t page) const noexcept {
    return reinterpret_cast<const float*>(keys(layer, head, page) + 2 * block());
  }
  const float* value_scales(std::int64_t layer, std::int64_t head,
                            std::int64_t page) const noexcept {
    return key_scales(layer, head, page) + avx512::kKeys;
  }

 private:
  std::int64_t block() const noexcept { return avx512::kKeys * dim_; }
  std::int64_t stride() const noexcept {
    return 2 * block() + 2 * avx512::kKeys * static_cast<std::int64_t>(sizeof(float));
  }

  Shape shape_;
  std::int64_t dim_;
  Arena arena_{std::size_t{16} << 20, Arena::Memory::kUsed};
  std::vector<std::shared_ptr<std::uint8_t[]>> pages_;
};

}  // namespace forerun
