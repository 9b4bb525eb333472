#include "forerun/tensor/cpu/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace forerun {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

std::shared_ptr<void> map_region(std::size_t bytes) {
  // A huge page begins at a multiple of its size: room to start at one.
  const std::size_t mapped = bytes + kHuge;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  auto* first = reinterpret_cast<void*>(round_up(reinterpret_cast<std::uintptr_t>(raw), kHuge));
  std::shared_ptr<void> owner(first, [raw, mapped](void*) { munmap(raw, mapped); });
#ifdef MADV_HUGEPAGE
  madvise(first, bytes, MADV_HUGEPAGE);  // a wish: small pages work as well
#endif
  return owner;
}

}  // namespace

Arena::Piece Arena::take(std::size_t bytes) {
  bytes = round_up(std::max<std::size_t>(bytes, 1), 64);
  if (bytes > size_ - used_) {
    const std::size_t size = round_up(std::max(bytes, region_), kHuge);
    current_ = map_region(size);
    size_ = size;
    used_ = 0;
  }
  const Piece piece{current_, static_cast<char*>(current_.get()) + used_};
  used_ += bytes;
  return piece;
}

}  // namespace forerun
