#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/kv_pool.h"

namespace forerun {

/// Keys and values of one sequence in int8, one scale for a position and head, in pages of 64
/// places. A page holds all layers, and for each layer and head the keys as [dim / 4][64][4],
/// the values as [16][dim][4] and the scales of both: in the order in which attention reads them.
/// Both are stored times a Hadamard matrix, so that a few large values do not cost the others
/// precision. Place i is position i up to the capacity; the places after it are for the branches of
/// a pass that is not a chain. Sequences that begin alike share pages: `reserve` copies a page
/// before it is written if another sequence holds it as well.
class KvPages {
 public:
  struct Shape {
    std::int64_t layers, heads, head_dim;
  };
  /// @param pool  where pages come from; none: one of its own, without limit
  explicit KvPages(Shape shape, std::shared_ptr<KvPool> pool = nullptr);

  /// Values of a head, padded to a multiple of 16.
  static std::int64_t padded(std::int64_t head_dim) noexcept { return (head_dim + 15) / 16 * 16; }
  /// Values of a head under one Hadamard matrix: the largest power of two that divides them.
  static std::int64_t rotation(std::int64_t head_dim) noexcept {
    return padded(head_dim) & -padded(head_dim);
  }

  /// Whether one Hadamard matrix takes a whole head, as the kernels for heads do.
  static bool whole(std::int64_t head_dim) noexcept {
    return rotation(head_dim) == head_dim && head_dim <= kernel::kMostHead;
  }

  /// Rotates the values of a head, padded, and rounds them to `rounded` [padded(head_dim)]: for
  /// keys, values and queries.
  static kernel::Rounded round_head(const float* head, std::int64_t head_dim, std::int8_t* rounded);

  /// Room for positions [begin, end) and `branches` places after the capacity, all free to be
  /// written.
  /// @throws KvPoolFull  nothing has changed then
  void reserve(std::int64_t begin, std::int64_t end, std::int64_t branches = 0);
  /// Bytes that this takes from the pool, copies of shared pages included.
  std::size_t bytes_to_reserve(std::int64_t begin, std::int64_t end,
                               std::int64_t branches = 0) const noexcept;
  /// Gives back the pages after the first `positions`.
  void release_after(std::int64_t positions) noexcept;
  /// The pages of the first `positions`, held together.
  KvPages share(std::int64_t positions) const;
  std::int64_t capacity() const noexcept { return first_branch_ * kernel::kKeys; }
  /// Bytes of all its pages, shared ones included.
  std::size_t bytes() const noexcept { return pages_.size() * page_bytes(); }
  const std::shared_ptr<KvPool>& pool() const noexcept { return pool_; }

  /// Stores one place of one head; `k` and `v` are [head_dim] float32. A value that is not
  /// finite makes the key NaN: rows that see the place get NaN, the others do not (zero times
  /// infinity would not be zero).
  void write(std::int64_t layer, std::int64_t head, std::int64_t place, const float* k,
             const float* v);
  /// Copies all layers and heads of a place.
  void copy(std::int64_t from, std::int64_t to);

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
    return key_scales(layer, head, page) + kernel::kKeys;
  }

 private:
  std::int64_t block() const noexcept { return kernel::kKeys * dim_; }
  std::int64_t stride() const noexcept {
    return 2 * block() + 2 * kernel::kKeys * static_cast<std::int64_t>(sizeof(float));
  }
  std::size_t page_bytes() const noexcept {
    return static_cast<std::size_t>(shape_.layers * shape_.heads * stride());
  }
  static std::int64_t pages_for(std::int64_t places) noexcept {
    return (places + kernel::kKeys - 1) / kernel::kKeys;
  }
  Shape shape_;
  std::int64_t dim_;
  std::shared_ptr<KvPool> pool_;
  std::vector<KvPool::Page> pages_;  // of positions, then of branches
  std::int64_t first_branch_ = 0;
};

}  // namespace forerun
