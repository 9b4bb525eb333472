#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "forerun/tensor/cpu/kv_pages.h"
#include "forerun/tensor/cpu/kv_pool.h"
#include "forerun/tensor/recurrent_state.h"
#include "forerun/tensor/row_plan.h"

namespace forerun {

/// Keys and values of the kept positions of one sequence, and the state of recurrent layers where a
/// model has some. Rejected positions are dropped, never masked. Stored as tensors, or as the pages
/// that the int8 engine reads. The rows of a pass that is not a chain are pending after it, until
/// `keep` says which path of them stays.
class KvCache {
 public:
  struct Shape {
    std::int64_t layers, heads, head_dim;
    at::ScalarType dtype;
  };
  /// @param capacity  positions of the first allocation, made when they are needed
  /// @param pool      counts the memory; none: nobody does
  explicit KvCache(Shape shape, std::int64_t capacity = 256,
                   std::shared_ptr<KvPool> pool = nullptr);
  explicit KvCache(KvPages pages) : pages_(std::move(pages)) {}
  KvCache(KvCache&&) = default;
  KvCache& operator=(KvCache&&) = default;  // `share` copies

  /// Adds the state of recurrent layers, of an empty cache.
  void set_recurrent(const RecurrentState::Shape& shape) { recurrent_.emplace(shape, pool()); }
  /// Positions from this one on can be dropped, whatever passes follow: give the first whose token
  /// is not certain. Without recurrent layers all can always; with them, and without this, only
  /// those of the last pass, of a long one its last 16.
  void hold(std::int64_t position) noexcept {
    if (recurrent_) recurrent_->hold(position);
  }
  /// With recurrent layers keeps a copy of the first state from here on, so that `share` and
  /// `truncate` reach it; four at most.
  void remember() noexcept {
    if (recurrent_) recurrent_->remember();
  }
  /// @return null: the model has no such layers
  RecurrentState* recurrent() noexcept { return recurrent_ ? &*recurrent_ : nullptr; }

  std::int64_t length() const noexcept { return length_; }
  /// Bytes of its memory; pages that it shares are counted by every holder.
  std::size_t bytes() const noexcept;
  /// The pool that its memory comes from; null if nobody counts it.
  const std::shared_ptr<KvPool>& pool() const noexcept { return pages_ ? pages_->pool() : pool_; }

  /// How many of the first `positions` positions `share` can take: all, but for recurrent layers,
  /// whose earlier states are there for some positions only.
  std::int64_t sharable(std::int64_t positions) const noexcept {
    positions = std::min(positions, length_);
    return recurrent_ ? recurrent_->reachable(positions) : positions;
  }
  /// A cache of the first `positions` positions. Pages are shared, and copied once one of the
  /// sequences writes into them; tensors are copied.
  /// @throws std::invalid_argument  more positions than are sharable; KvPoolFull (tensors, states)
  KvCache share(std::int64_t positions) const;

  /// Room for `n` more positions, or for the rows of a pass. Growing tensors doubles them, so a run
  /// copies O(length) in total.
  /// @throws KvPoolFull  nothing has changed then
  void reserve(std::int64_t n) { reserve(RowPlan(n)); }
  void reserve(const RowPlan& rows);
  /// Bytes that `reserve` would take from the pool, copies of shared pages included. For several
  /// caches of one pass the sum is an upper bound: of a page that two of them share, one is copied.
  std::size_t bytes_to_reserve(std::int64_t n) const { return bytes_to_reserve(RowPlan(n)); }
  std::size_t bytes_to_reserve(const RowPlan& rows) const noexcept;
  /// Writes keys and values of new rows after the kept positions; `advance` commits them.
  /// @param k, v  [n, heads, head_dim] of the cache's dtype, n within what was reserved
  void write(std::int64_t layer, const at::Tensor& k, const at::Tensor& v);
  void advance(std::int64_t n) noexcept { length_ += n; }
  /// The end of a pass: a chain is kept, other rows are pending.
  void advance(RowPlan rows);
  bool pending() const noexcept { return pending_.has_value(); }
  /// Keeps the pending rows of `path`, each the parent of the next, the first one's parent the last
  /// kept position. All others are dropped.
  /// @throws std::invalid_argument  not such a path, or a row that skips positions;
  /// std::logic_error  no rows are pending, or recurrent layers have taken rows of a long straight
  /// beginning into their state that the path lacks
  void keep(std::span<const std::int32_t> path);
  /// Keys and values of rows [begin, end), positions up to the kept ones: [heads, end - begin,
  /// head_dim], views.
  at::Tensor keys(std::int64_t layer, std::int64_t begin, std::int64_t end) const;
  at::Tensor values(std::int64_t layer, std::int64_t begin, std::int64_t end) const;
  /// The pages of a cache in page form; the writer calls `advance` as well.
  /// @throws std::bad_optional_access  the cache has tensors
  KvPages& pages() { return pages_.value(); }
  const KvPages& pages() const { return pages_.value(); }
  /// Keeps the first `length` positions, if there are more, and drops pending rows. Pages that are
  /// not needed then go back to the pool. With recurrent layers fewer are kept where the state of
  /// `length` is gone (see `hold`).
  void truncate(std::int64_t length) noexcept;

 private:
  std::int64_t grown(std::int64_t positions) const noexcept;  // capacity with room for so many
  std::size_t bytes_of(std::int64_t capacity) const noexcept;
  void check_path(std::span<const std::int32_t> path) const;

  std::optional<KvPages> pages_;
  Shape shape_{};
  std::int64_t first_capacity_ = 0, capacity_ = 0;
  std::int64_t length_ = 0;
  std::vector<at::Tensor> k_, v_;  // a layer each: [heads, capacity, head_dim]
  std::shared_ptr<KvPool> pool_;
  std::vector<std::shared_ptr<void>> charges_;  // of the tensors, one for each growth
  std::optional<RowPlan> pending_;
  std::optional<RecurrentState> recurrent_;
};

}  // namespace forerun
