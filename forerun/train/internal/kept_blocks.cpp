#include "forerun/train/internal/kept_blocks.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceType.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace forerun::internal {
namespace {

constexpr std::size_t kAlign = 64, kLeast = std::size_t{1} << 12, kHugePage = std::size_t{2} << 20;
// Four sizes between two powers of two: at most a quarter of a block is not used.
constexpr std::size_t kSizes = 4 * 64;

// Before each block, in kAlign bytes.
struct Header {
  std::size_t number;  // of its size
  Header* next;        // free block of that size
  void* block() { return reinterpret_cast<char*>(this) + kAlign; }
};
static_assert(sizeof(Header) <= kAlign);

std::size_t number_of(std::size_t bytes) {
  const std::size_t n = std::max(bytes, kLeast) - 1;
  const auto power = static_cast<std::size_t>(std::bit_width(n)) - 1;
  return 4 * power + (n >> (power - 2)) % 4;
}

std::size_t size_of(std::size_t number) {
  const std::size_t power = number / 4;
  return (std::size_t{5} + number % 4) << (power - 2);
}

class BlockCache final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const block = bytes == 0 ? nullptr : take(bytes);
    return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  void begin() {
    const std::lock_guard lock(mutex_);
    if (users_++ > 0 || c10::GetCPUAllocator() != c10::GetDefaultCPUAllocator()) return;
    keeping_ = true;
    c10::SetCPUAllocator(this);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--users_ > 0 || !keeping_) return;
    keeping_ = false;
    if (c10::GetCPUAllocator() == this) c10::SetCPUAllocator(c10::GetDefaultCPUAllocator());
    drop();
  }

 private:
  static void release(void* block);

  void* take(std::size_t bytes) {
    const std::size_t number = number_of(bytes + kAlign);
    {
      const std::lock_guard lock(mutex_);
      // Shapes differ from step to step: a block up to twice as large is better than one more.
      for (std::size_t n = number; n < std::min(number + 4, kSizes); ++n) {
        if (Header* const head = free_[n]; head != nullptr) {
          free_[n] = head->next;
          return head->block();
        }
      }
    }
    void* base = fresh(size_of(number));
    if (base == nullptr) {
      const std::lock_guard lock(mutex_);
      drop();
      base = fresh(size_of(number));
    }
    if (base == nullptr) throw std::bad_alloc();
    return (new (base) Header{number, nullptr})->block();
  }

  static void* fresh(std::size_t bytes) {
    void* base = nullptr;
    const bool huge = bytes >= kHugePage;
    if (posix_memalign(&base, huge ? kHugePage : kAlign, bytes) != 0) return nullptr;
#ifdef __linux__
    if (huge) madvise(base, bytes, MADV_HUGEPAGE);
#endif
    return base;
  }

  void drop() {
    for (Header*& head : free_) {
      while (head != nullptr) std::free(std::exchange(head, head->next));
    }
  }

  std::mutex mutex_;
  std::array<Header*, kSizes> free_{};
  int users_ = 0;
  bool keeping_ = false;
};

// Never destroyed: tensors may outlive everything.
BlockCache& cache() {
  static auto* const blocks = new BlockCache;
  return *blocks;
}

void BlockCache::release(void* block) {
  if (block == nullptr) return;
  BlockCache& c = cache();
  auto* const header = reinterpret_cast<Header*>(static_cast<char*>(block) - kAlign);
  {
    const std::lock_guard lock(c.mutex_);
    if (c.keeping_) {
      header->next = std::exchange(c.free_[header->number], header);
      return;
    }
  }
  std::free(header);
}

}  // namespace

KeptBlocks::KeptBlocks() { cache().begin(); }
KeptBlocks::~KeptBlocks() { cache().end(); }

}  // namespace forerun::internal
