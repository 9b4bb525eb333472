#include "forerun/tensor/cpu/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace forerun {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

struct Region {
  void* raw = nullptr;
  std::size_t mapped = 0;

  // A huge page starts at a multiple of its size.
  void* first() const {
    return reinterpret_cast<void*>(round_up(reinterpret_cast<std::uintptr_t>(raw), kHuge));
  }
};

Region map_region(std::size_t bytes) {
  Region region{.mapped = bytes + kHuge};
  region.raw =
      mmap(nullptr, region.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region.raw == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(region.first(), bytes, MADV_HUGEPAGE);  // optional: small pages work as well
#endif
  return region;
}

void unmap(const Region& region) noexcept { munmap(region.raw, region.mapped); }

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
      if (regions_[i].mapped != bytes + kHuge) continue;
      return std::exchange(regions_[i], regions_[--count_]);
    }
    return map_region(bytes);
  }
  void give(const Region& region) noexcept {
    const std::scoped_lock lock(mutex_);
    if (count_ == regions_.size()) return unmap(region);
    regions_[count_++] = region;
  }

 private:
  std::mutex mutex_;
  std::array<Region, 8> regions_{};
  std::size_t count_ = 0;
};

std::shared_ptr<void> own(std::size_t bytes, Arena::Memory memory) {
  if (memory == Arena::Memory::kZeroed) {
    const Region region = map_region(bytes);
    return {region.first(), [region](void*) { unmap(region); }};
  }
  const Region region = Spares::instance().take(bytes);
  return {region.first(), [region](void*) { Spares::instance().give(region); }};
}

}  // namespace

Arena::Span Arena::map(std::size_t bytes) const {
  const std::size_t size = round_up(std::max(bytes, region_), kHuge);
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
  const std::size_t begin = std::max(span.touched, round_up(span.used, kHuge));
  end = round_up(end, kHuge);
  if (end <= begin) return;
  if (!prefault_) prefault_ = std::make_unique<Prefault>();
  prefault_->add(span.owner, static_cast<char*>(span.owner.get()) + begin, end - begin);
  span.touched = end;
}

void Arena::wait() {
  if (prefault_) prefault_->wait();
}

}  // namespace forerun
