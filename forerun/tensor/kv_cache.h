#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "forerun/tensor/cpu/kv_pages.h"

namespace forerun {

/// Keys and values of the kept positions of one sequence. Rejected positions are dropped, never
/// masked. Stored as tensors, or as the pages that the int8 engine reads.
class KvCache {
 public:
  struct Shape {
    std::int64_t layers, heads, head_dim;
    at::ScalarType dtype;
  };
  explicit KvCache(Shape shape, std::int64_t capacity = 256);
  explicit KvCache(KvPages pages) : pages_(std::move(pages)) {}

  std::int64_t length() const noexcept { return length_; }

  /// Room for `n` more positions; growing doubles the storage, so a run copies O(length) in total.
  void reserve(std::int64_t n);
  /// Writes keys and values of new positions after the kept ones; `advance` commits them.
  /// @param k, v  [n, heads, head_dim] of the cache's dtype, n within what was reserved
  void write(std::int64_t layer, const at::Tensor& k, const at::Tensor& v);
  void advance(std::int64_t n);
  /// Keys and values of positions [begin, end): [heads, end - begin, head_dim], views.
  at::Tensor keys(std::int64_t layer, std::int64_t begin, std::int64_t end) const;
  at::Tensor values(std::int64_t layer, std::int64_t begin, std::int64_t end) const;
  /// The pages of a cache in page form; the writer calls `advance` as well.
  /// @throws std::bad_optional_access  the cache has tensors
  KvPages& pages() { return pages_.value(); }
  const KvPages& pages() const { return pages_.value(); }
  /// Keeps the first `length` positions; no effect if there are fewer.
  void truncate(std::int64_t length) noexcept;

 private:
  std::optional<KvPages> pages_;
  Shape shape_{};
  std::int64_t capacity_ = 0;
  std::int64_t length_ = 0;
  std::vector<at::Tensor> k_, v_;  // a layer each: [heads, capacity, head_dim]
};

}  // namespace forerun
