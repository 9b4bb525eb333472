#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "forerun/tensor/cpu/arena.h"
#include "forerun/tensor/cpu/avx512/kernels.h"

namespace forerun {

/// Keys and values of one lane in bf16, in pages of 64 positions. A page holds all layers, and for
/// each layer and head the keys as [dim / 2][64][2] and the values as [32][dim][2]: what the
/// products of attention read in order. Growing adds pages and copies nothing.
class KvPages {
 public:
  struct Shape {
    std::int64_t layers, heads, head_dim;
  };
  explicit KvPages(Shape shape) noexcept : shape_(shape) {}

  /// Values of a head with zeros up to a multiple of 16.
  static std::int64_t padded(std::int64_t head_dim) noexcept { return (head_dim + 15) / 16 * 16; }

  void reserve(std::int64_t positions);
  std::int64_t capacity() const noexcept {
    return static_cast<std::int64_t>(pages_.size()) * avx512::kKeys;
  }

  /// Stores one position of one head; `k` and `v` are [head_dim] float32. A value that is not
  /// finite becomes a key of NaN: whoever sees the position gets NaN, and whoever does not is
  /// spared (zero times infinity would not be zero).
  void write(std::int64_t layer, std::int64_t head, std::int64_t position, const float* k,
             const float* v);
  const std::uint16_t* keys(std::int64_t layer, std::int64_t head,
                            std::int64_t page) const noexcept {
    return pages_[static_cast<std::size_t>(page)].get() + offset(layer, head);
  }
  const std::uint16_t* values(std::int64_t layer, std::int64_t head,
                              std::int64_t page) const noexcept {
    return keys(layer, head, page) + block();
  }

 private:
  std::int64_t block() const noexcept { return avx512::kKeys * padded(shape_.head_dim); }
  std::int64_t offset(std::int64_t layer, std::int64_t head) const noexcept {
    return (layer * shape_.heads + head) * 2 * block();
  }

  Shape shape_;
  Arena arena_{std::size_t{16} << 20};
  std::vector<std::shared_ptr<std::uint16_t[]>> pages_;
};

}  // namespace forerun
