#include "forerun/tensor/cpu/arena.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <utility>

#include "forerun/base/huge_pages.h"

namespace forerun {
namespace {

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

struct Region {
  void* at = nullptr;
  std::size_t bytes = 0;
};

// Regions that are unused at the moment.
class Spares {
 public:
  // Never destroyed: regions may come back while the process ends.
  static Spares& instance() {
    static Spares* const spares = new Spares;
    return *spares;
  }
  Region take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = count_; i-- > 0;) {
      if (regions_[i].bytes != bytes) continue;
      return std::exchange(regions_[i], regions_[--count_]);
    }
    return {map_huge(bytes), bytes};
  }
  void give(const Region& region) noexcept {
    const std::scoped_lock lock(mutex_);
    if (count_ == regions_.size()) return unmap_huge(region.at, region.bytes);
    regions_[count_++] = region;
  }

 private:
  std::mutex mutex_;
  std::array<Region, 8> regions_{};
  std::size_t count_ = 0;
};

std::shared_ptr<void> own(std::size_t bytes, Arena::Memory memory) {
  if (memory == Arena::Memory::kZeroed) {
    return {map_huge(bytes), [bytes](void* at) { unmap_huge(at, bytes); }};
  }
  const Region region = Spares::instance().take(bytes);
  return {region.at, [region](void*) { Spares::instance().give(region); }};
}

}  // namespace

Arena::Span Arena::map(std::size_t bytes) const {
  const std::size_t size = round_up(std::max(bytes, region_), kHugePage);
  return {.owner = own(size, memory_), .size = size};
}

Arena::Piece Arena::take(std::size_t bytes) {
  bytes = round_up(std::max<std::size_t>(bytes, 1), 64);
  if (bytes > current_.size - current_.used) {
    current_ = bytes <= next_.size ? std::exchange(next_, {}) : map(bytes);
  }
  Piece piece{current_.owner, static_cast<char*>(current_.owner.get()) + current_.used};
  current_.used += bytes;
  latest_ = bytes;
  return piece;
}

void Arena::touch_ahead(std::size_t bytes) noexcept try {
  const std::size_t rest = (current_.size - current_.used) / latest_ * latest_;
  touch(current_, current_.used + std::min(rest, bytes));
  if (bytes <= rest) return;
  if (next_.size < latest_) next_ = map(latest_);
  touch(next_, std::min(bytes - rest, next_.size));
} catch (const std::bad_alloc&) {  // it is not needed yet
}

// The huge page that is in use already is left out.
void Arena::touch(Span& span, std::size_t end) {
  const std::size_t begin = std::max(span.touched, round_up(span.used, kHugePage));
  end = round_up(end, kHugePage);
  if (end <= begin) return;
  if (!prefault_) prefault_ = std::make_unique<Prefault>();
  prefault_->add(span.owner, static_cast<char*>(span.owner.get()) + begin, end - begin);
  span.touched = end;
}

void Arena::wait() {
  if (prefault_) prefault_->wait();
}

}  // namespace forerun
