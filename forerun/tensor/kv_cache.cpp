#include "forerun/tensor/kv_cache.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace forerun {

KvCache::KvCache(Shape shape, std::int64_t capacity, std::shared_ptr<KvPool> pool)
    : shape_(shape), first_capacity_(capacity), pool_(std::move(pool)) {
  const at::Tensor none = at::empty({shape.heads, 0, shape.head_dim}, shape.dtype);
  k_.assign(static_cast<std::size_t>(shape.layers), none);
  v_ = k_;
}

std::int64_t KvCache::grown(std::int64_t positions) const noexcept {
  if (positions <= capacity_) return capacity_;
  const std::int64_t least = std::max(capacity_, first_capacity_);
  return positions <= least ? least : std::max(positions, 2 * least);
}

std::size_t KvCache::bytes_of(std::int64_t capacity) const noexcept {
  return static_cast<std::size_t>(2 * shape_.layers * shape_.heads * shape_.head_dim * capacity) *
         at::elementSize(shape_.dtype);
}

std::size_t KvCache::bytes() const noexcept {
  return (pages_ ? pages_->bytes() : bytes_of(capacity_)) + (recurrent_ ? recurrent_->bytes() : 0);
}

std::size_t KvCache::bytes_to_reserve(const RowPlan& rows) const noexcept {
  const std::size_t state = recurrent_ ? recurrent_->bytes_to_reserve(rows) : 0;
  if (!pages_) return bytes_of(grown(length_ + rows.rows())) - bytes_of(capacity_) + state;
  return pages_->bytes_to_reserve(length_, length_ + rows.depths(), rows.branches()) + state;
}

void KvCache::reserve(const RowPlan& rows) {
  if (pending_) throw std::logic_error("KvCache: reserve with pending rows; call keep or truncate");
  if (recurrent_) {
    if (pool()) pool()->require(bytes_to_reserve(rows));  // both parts or none
    recurrent_->reserve(rows);
  }
  if (pages_) return pages_->reserve(length_, length_ + rows.depths(), rows.branches());
  const std::int64_t capacity = grown(length_ + rows.rows());
  if (capacity == capacity_) return;
  if (pool_) charges_.push_back(pool_->charge(bytes_of(capacity) - bytes_of(capacity_)));
  for (auto* tensors : {&k_, &v_}) {
    for (at::Tensor& old : *tensors) {
      const at::Tensor t = at::empty({shape_.heads, capacity, shape_.head_dim}, shape_.dtype);
      if (length_ > 0) t.narrow(1, 0, length_).copy_(old.narrow(1, 0, length_));
      old = t;
    }
  }
  capacity_ = capacity;
}

KvCache KvCache::share(std::int64_t positions) const {
  if (positions < 0 || positions > sharable(positions)) {
    throw std::invalid_argument(
        fmt::format("KV cache: {} positions cannot be shared, it has {}: ask for at most those",
                    positions, sharable(positions)));
  }
  std::optional<RecurrentState> state;
  if (recurrent_) state = recurrent_->share(positions);
  if (pages_) {
    KvCache out(pages_->share(positions));
    out.length_ = positions;
    out.recurrent_ = std::move(state);
    return out;
  }
  KvCache out(shape_, first_capacity_, pool_);
  out.reserve(positions);
  for (std::size_t l = 0; l < k_.size(); ++l) {
    out.k_[l].narrow(1, 0, positions).copy_(k_[l].narrow(1, 0, positions));
    out.v_[l].narrow(1, 0, positions).copy_(v_[l].narrow(1, 0, positions));
  }
  out.length_ = positions;
  out.recurrent_ = std::move(state);
  return out;
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

void KvCache::advance(RowPlan rows) {
  if (recurrent_) recurrent_->advance(rows);
  if (rows.chain()) {
    length_ += rows.rows();
  } else {
    pending_ = std::move(rows);
  }
}

void KvCache::check_path(std::span<const std::int32_t> path) const {
  if (!pending_) throw std::logic_error("KvCache: keep without pending rows; run a pass first");
  std::int32_t last = -1;
  for (const std::int32_t row : path) {
    const std::int64_t depth = last < 0 ? 0 : pending_->depth(last) + 1;
    if (row < 0 || row >= pending_->rows() || pending_->parent(row) != last ||
        pending_->depth(row) != depth) {
      throw std::invalid_argument(
          fmt::format("KV cache: row {} does not follow {} among the {} pending rows: keep a path "
                      "along their parents",
                      row, last < 0 ? "the last kept position" : fmt::format("row {}", last),
                      pending_->rows()));
    }
    last = row;
  }
}

void KvCache::keep(std::span<const std::int32_t> path) {
  check_path(path);
  if (recurrent_) recurrent_->keep(path);
  const auto n = static_cast<std::int64_t>(path.size());
  if (pages_) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t branch = path[static_cast<std::size_t>(i)] - pending_->straight();
      if (branch >= 0) pages_->copy(pages_->capacity() + branch, length_ + i);
    }
  } else if (n > 0) {
    std::vector<std::int64_t> rows;
    for (const std::int32_t row : path) rows.push_back(length_ + row);
    const at::Tensor index = at::tensor(rows, at::kLong);
    for (auto* tensors : {&k_, &v_}) {
      for (at::Tensor& t : *tensors) t.narrow(1, length_, n).copy_(t.index_select(1, index));
    }
  }
  truncate(length_ += n);
}

at::Tensor KvCache::keys(std::int64_t layer, std::int64_t begin, std::int64_t end) const {
  return k_[static_cast<std::size_t>(layer)].narrow(1, begin, end - begin);
}

at::Tensor KvCache::values(std::int64_t layer, std::int64_t begin, std::int64_t end) const {
  return v_[static_cast<std::size_t>(layer)].narrow(1, begin, end - begin);
}

void KvCache::truncate(std::int64_t length) noexcept {
  pending_.reset();
  length_ = std::min(length_, length);
  if (recurrent_) length_ = recurrent_->truncate(length_);
  if (pages_) pages_->release_after(length_);
}

}  // namespace forerun
