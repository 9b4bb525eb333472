#include "forerun/tensor/kv_cache.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

namespace forerun {

KvCache::KvCache(Shape shape, std::int64_t capacity) : shape_(shape) {
  k_.resize(static_cast<std::size_t>(shape.layers));
  v_.resize(static_cast<std::size_t>(shape.layers));
  reserve(capacity);
}

void KvCache::reserve(std::int64_t n) {
  if (pages_) {
    pages_->reserve(length_ + n);
    return;
  }
  if (length_ + n <= capacity_) return;
  const std::int64_t capacity = std::max(length_ + n, 2 * capacity_);
  const auto grown = [&](const at::Tensor& old) {
    at::Tensor t = at::empty({shape_.heads, capacity, shape_.head_dim}, shape_.dtype);
    if (old.defined() && length_ > 0) t.narrow(1, 0, length_).copy_(old.narrow(1, 0, length_));
    return t;
  };
  for (auto& t : k_) t = grown(t);
  for (auto& t : v_) t = grown(t);
  capacity_ = capacity;
}

void KvCache::write(std::int64_t layer, const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t n = k.size(0);
  if (length_ + n > capacity_) {
    throw std::logic_error("KvCache: write past the reserved positions; call reserve first");
  }
  const auto l = static_cast<std::size_t>(layer);
  k_[l].narrow(1, length_, n).copy_(k.transpose(0, 1));
  v_[l].narrow(1, length_, n).copy_(v.transpose(0, 1));
}

void KvCache::advance(std::int64_t n) { length_ += n; }

at::Tensor KvCache::keys(std::int64_t layer, std::int64_t begin, std::int64_t end) const {
  return k_[static_cast<std::size_t>(layer)].narrow(1, begin, end - begin);
}

at::Tensor KvCache::values(std::int64_t layer, std::int64_t begin, std::int64_t end) const {
  return v_[static_cast<std::size_t>(layer)].narrow(1, begin, end - begin);
}

void KvCache::truncate(std::int64_t length) noexcept { length_ = std::min(length_, length); }

}  // namespace forerun
