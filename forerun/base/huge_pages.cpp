#include "forerun/base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace forerun {
namespace {

bool is_large(std::size_t bytes) { return bytes >= kHugePage / 2; }

std::size_t in_pages(std::size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

}  // namespace

// The system aligns to small pages: what lies before the first huge page and behind the last goes
// back.
void* map_huge(std::size_t bytes) {
  if (bytes == 0 || bytes > static_cast<std::size_t>(-1) / 2) throw std::bad_alloc();
  void* const raw =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  const std::size_t before =
      (kHugePage - reinterpret_cast<std::uintptr_t>(raw) % kHugePage) % kHugePage;
  char* const at = static_cast<char*>(raw) + before;
  if (before > 0) munmap(raw, before);
  munmap(at + bytes, kHugePage - before);
#ifdef MADV_HUGEPAGE
  madvise(at, bytes, MADV_HUGEPAGE);  // optional: small pages work as well
#endif
  return at;
}

void unmap_huge(void* at, std::size_t bytes) noexcept { munmap(at, bytes); }

void* allocate_huge(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(-1) / 2) throw std::bad_alloc();
  if (is_large(bytes)) return map_huge(in_pages(bytes));
  void* const at = std::malloc(bytes > 0 ? bytes : 1);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

void free_huge(void* at, std::size_t bytes) noexcept {
  if (is_large(bytes)) {
    unmap_huge(at, in_pages(bytes));
  } else {
    std::free(at);
  }
}

}  // namespace forerun
