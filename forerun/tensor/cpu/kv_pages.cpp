#include "forerun/tensor/cpu/kv_pages.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "forerun/tensor/cpu/aligned_buffer.h"
#include "forerun/tensor/cpu/quads.h"

namespace forerun {

namespace {

// Plain counting: a pass and the sharing of pages happen on one thread.
bool shared(const KvPool::Page& page) noexcept { return page.use_count() > 1; }

}  // namespace

KvPages::KvPages(Shape shape, std::shared_ptr<KvPool> pool)
    : shape_(shape),
      dim_(padded(shape.head_dim)),
      pool_(pool ? std::move(pool) : std::make_shared<KvPool>()) {}

std::size_t KvPages::bytes_to_reserve(std::int64_t begin, std::int64_t end,
                                      std::int64_t branches) const noexcept {
  const std::int64_t last = pages_for(end);
  std::int64_t pages = std::max<std::int64_t>(0, last - first_branch_) + pages_for(branches);
  for (std::int64_t i = begin / kernel::kKeys; i < std::min(last, first_branch_); ++i) {
    pages += shared(pages_[static_cast<std::size_t>(i)]) ? 1 : 0;
  }
  return static_cast<std::size_t>(pages) * page_bytes();
}

void KvPages::reserve(std::int64_t begin, std::int64_t end, std::int64_t branches) {
  pages_.resize(static_cast<std::size_t>(first_branch_));
  pool_->require(bytes_to_reserve(begin, end, branches));
  const std::int64_t last = pages_for(end);
  for (std::int64_t i = begin / kernel::kKeys; i < std::min(last, first_branch_); ++i) {
    KvPool::Page& page = pages_[static_cast<std::size_t>(i)];
    if (!shared(page)) continue;
    KvPool::Page own = pool_->page(page_bytes());
    std::memcpy(own.get(), page.get(), page_bytes());
    page = std::move(own);
  }
  // Places that were never written are read and have weight zero, whatever they hold.
  for (; first_branch_ < last; ++first_branch_) pages_.push_back(pool_->page(page_bytes()));
  for (std::int64_t i = 0; i < pages_for(branches); ++i) {
    pages_.push_back(pool_->page(page_bytes()));
  }
}

void KvPages::release_after(std::int64_t positions) noexcept {
  first_branch_ = std::min(first_branch_, pages_for(positions));
  pages_.resize(static_cast<std::size_t>(first_branch_));
}

KvPages KvPages::share(std::int64_t positions) const {
  KvPages out(shape_, pool_);
  out.first_branch_ = pages_for(positions);
  out.pages_.assign(pages_.begin(), pages_.begin() + out.first_branch_);
  return out;
}

kernel::Rounded KvPages::round_head(const float* head, std::int64_t head_dim,
                                    std::int8_t* rounded) {
  if (whole(head_dim)) return kernels().round_head(head, head_dim, rounded);
  thread_local AlignedBuffer<float> values;
  const std::int64_t dim = padded(head_dim);
  float* x = values.room_for(static_cast<std::size_t>(dim));
  std::copy_n(head, head_dim, x);
  std::fill(x + head_dim, x + dim, 0.0F);
  kernels().hadamard_row(x, dim, rotation(head_dim));
  return kernels().round_to_int8(x, dim, rounded);
}

void KvPages::write(std::int64_t layer, std::int64_t head, std::int64_t place, const float* k,
                    const float* v) {
  thread_local AlignedBuffer<std::int8_t> rounded_values;
  std::int8_t* rounded = rounded_values.room_for(static_cast<std::size_t>(dim_));
  const std::int64_t slot = place % kernel::kKeys;
  auto* keys = const_cast<std::uint8_t*>(this->keys(layer, head, place / kernel::kKeys));
  auto* values = reinterpret_cast<std::int8_t*>(keys + block()) + slot / 4 * 4 * dim_ + slot % 4;
  auto* scales = reinterpret_cast<float*>(keys + 2 * block());
  float key_scale = round_head(k, shape_.head_dim, rounded).scale;
  put_quads(rounded, dim_, slot, kernel::kKeys, keys);
  float value_scale = round_head(v, shape_.head_dim, rounded).scale;
  for (std::int64_t d = 0; d < dim_; ++d) values[4 * d] = rounded[d];
  if (std::isnan(value_scale)) {
    key_scale = std::numeric_limits<float>::quiet_NaN();
    value_scale = 0.0F;
  }
  scales[slot] = key_scale;
  scales[kernel::kKeys + slot] = value_scale;
}

void KvPages::copy(std::int64_t from, std::int64_t to) {
  const std::int64_t a = from % kernel::kKeys, b = to % kernel::kKeys;
  for (std::int64_t i = 0; i < shape_.layers * shape_.heads; ++i) {
    const std::uint8_t* source = keys(0, i, from / kernel::kKeys);
    auto* target = const_cast<std::uint8_t*>(keys(0, i, to / kernel::kKeys));
    for (std::int64_t d = 0; d < dim_; d += 4) {
      std::memcpy(target + d * kernel::kKeys + 4 * b, source + d * kernel::kKeys + 4 * a, 4);
    }
    source += block();
    target += block();
    for (std::int64_t d = 0; d < dim_; ++d) {
      target[b / 4 * 4 * dim_ + 4 * d + b % 4] = source[a / 4 * 4 * dim_ + 4 * d + a % 4];
    }
    source += block();
    target += block();
    for (const std::int64_t scales : {std::int64_t{0}, kernel::kKeys}) {
      std::memcpy(target + (scales + b) * 4, source + (scales + a) * 4, sizeof(float));
    }
  }
}

}  // namespace forerun
