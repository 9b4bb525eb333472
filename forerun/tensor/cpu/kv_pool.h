#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "forerun/tensor/cpu/arena.h"

namespace forerun {

/// A pool's limit does not allow what was requested; nothing was taken.
class KvPoolFull : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Memory for the keys and values of many sequences, under one limit. Pages that are given back
/// serve the next ones of their size; the system gets the memory back with the pool's end. The
/// memory of the next 4 MiB of new pages (of two, if they are larger) is touched ahead, within the
/// limit. Safe to use from several threads; a pool is held by a shared_ptr, and its pages hold it.
class KvPool : public std::enable_shared_from_this<KvPool> {
 public:
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
  /// Goes back to the pool with its last holder.
  using Page = std::shared_ptr<std::uint8_t[]>;

  /// @param limit  bytes
  explicit KvPool(std::size_t limit = kUnlimited) : limit_(limit) {}

  std::size_t limit() const noexcept { return limit_; }
  /// Bytes of all pages and charges that are held.
  std::size_t used() const;
  std::size_t available() const { return limit_ - used(); }

  /// A page of `bytes`, aligned to 64, holding anything.
  /// @throws KvPoolFull, std::bad_alloc
  Page page(std::size_t bytes);
  /// Counts memory that its holder allocates elsewhere, as long as the handle lives.
  /// @throws KvPoolFull
  std::shared_ptr<void> charge(std::size_t bytes);
  /// @throws KvPoolFull  fewer than `bytes` are available
  void require(std::size_t bytes) const;

 private:
  // Pages of one size that nobody holds. There is room for all of them: giving back never throws.
  struct Spares {
    std::size_t made = 0;
    std::vector<Page> pages;
  };
  void take(std::size_t bytes);
  void give(std::size_t bytes) noexcept;
  void give(Page page, std::size_t bytes) noexcept;

  std::size_t limit_;
  mutable std::mutex mutex_;
  std::size_t used_ = 0, made_ = 0;  // bytes; of all pages, held or not
  Arena arena_{std::size_t{16} << 20, Arena::Memory::kUsed};
  std::map<std::size_t, Spares> spares_;  // by size of a page
};

}  // namespace forerun
