#include "forerun/tensor/cpu/kv_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace forerun {
namespace {

constexpr std::size_t kAhead = std::size_t{4} << 20;  // bytes

void check(std::size_t bytes, std::size_t used, std::size_t limit) {
  if (bytes <= limit - used) return;
  throw KvPoolFull(
      fmt::format("KV memory: {} bytes requested, {} of {} in use: wait until a sequence ends, run "
                  "fewer at a time, or raise the limit",
                  bytes, used, limit));
}

}  // namespace

std::size_t KvPool::used() const {
  const std::scoped_lock lock(mutex_);
  return used_;
}

void KvPool::require(std::size_t bytes) const { check(bytes, used(), limit_); }

void KvPool::take(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  check(bytes, used_, limit_);
  used_ += bytes;
}

void KvPool::give(std::size_t bytes) noexcept {
  const std::scoped_lock lock(mutex_);
  used_ -= bytes;
}

void KvPool::give(Page page, std::size_t bytes) noexcept {
  const std::scoped_lock lock(mutex_);
  used_ -= bytes;
  spares_.find(bytes)->second.pages.push_back(std::move(page));
}

std::shared_ptr<void> KvPool::charge(std::size_t bytes) {
  take(bytes);
  return {nullptr, [pool = shared_from_this(), bytes](void*) { pool->give(bytes); }};
}

KvPool::Page KvPool::page(std::size_t bytes) {
  Page memory;
  {
    const std::scoped_lock lock(mutex_);
    check(bytes, used_, limit_);
    Spares& spares = spares_[bytes];
    if (spares.pages.empty()) {
      if (spares.pages.capacity() == spares.made) spares.pages.reserve(2 * spares.made + 8);
      memory = arena_.make<std::uint8_t>(bytes);
      ++spares.made;
      made_ += bytes;
      arena_.touch_ahead(std::min(std::max(kAhead, 2 * bytes), limit_ - std::min(made_, limit_)));
    } else {
      memory = std::move(spares.pages.back());
      spares.pages.pop_back();
    }
    used_ += bytes;
  }
  std::uint8_t* const at = memory.get();
  return {at, [pool = shared_from_this(), memory = std::move(memory),
               bytes](std::uint8_t*) mutable { pool->give(std::move(memory), bytes); }};
}

}  // namespace forerun
