#include "forerun/base/huge_pages.h"

#include <sys/mman.h>

#include <cstdlib>

namespace forerun {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;

}  // namespace

void* allocate_huge(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(-1) / 2) throw std::bad_alloc();
  const bool huge = bytes >= kHuge / 2;
  if (huge) bytes = (bytes + kHuge - 1) / kHuge * kHuge;
  void* const at = huge ? std::aligned_alloc(kHuge, bytes) : std::malloc(bytes > 0 ? bytes : 1);
  if (at == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (huge) madvise(at, bytes, MADV_HUGEPAGE);  // optional: small pages work as well
#endif
  return at;
}

void free_huge(void* at) noexcept { std::free(at); }

}  // namespace forerun
