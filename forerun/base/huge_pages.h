#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace forerun {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Zeroed memory from the system, aligned to a huge page, in huge pages where the system has them
/// on request (Linux).
/// @param bytes  a multiple of kHugePage
/// @throws std::bad_alloc
void* map_huge(std::size_t bytes);
void unmap_huge(void* at, std::size_t bytes) noexcept;

/// For tables. Random places of a large one then share their address translations: with pages of
/// 4 KiB each read misses the TLB, and after a pass over the weights so does the walk through the
/// page tables, which a virtual machine makes twice.
/// @param bytes  below 1 MiB: ordinary memory
/// @throws std::bad_alloc
void* allocate_huge(std::size_t bytes);
/// @param bytes  what was asked for
void free_huge(void* at, std::size_t bytes) noexcept;

/// For the tables of containers.
template <class T>
struct HugePages {
  using value_type = T;
  static_assert(alignof(T) <= alignof(std::max_align_t));

  HugePages() = default;
  template <class U>
  explicit(false) HugePages(const HugePages<U>&) noexcept {}

  T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(allocate_huge(n * sizeof(T)));
  }
  void deallocate(T* at, std::size_t n) noexcept { free_huge(at, n * sizeof(T)); }
  template <class U>
  bool operator==(const HugePages<U>&) const noexcept {
    return true;
  }
};

template <class T>
using HugeVector = std::vector<T, HugePages<T>>;

}  // namespace forerun
