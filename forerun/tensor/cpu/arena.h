#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "forerun/tensor/cpu/prefault.h"

namespace forerun {

/// Allocates cache-line-aligned memory from large regions on huge pages where the system has them:
/// a pass reads all weights, and with small pages a fifth of its time goes into address
/// translation. A region is returned when the last pointer into it is destroyed.
class Arena {
 public:
  enum class Memory : std::uint8_t {
    kZeroed,  ///< new from the system
    kUsed,  ///< may hold anything. A few regions are kept for reuse: the first touch of a huge page
            ///< takes up to 10 ms on a virtual machine, more than a round
  };
  /// @param region  bytes requested from the system at a time; untouched memory costs nothing
  explicit Arena(std::size_t region = std::size_t{64} << 20, Memory memory = Memory::kZeroed)
      : region_(region), memory_(memory) {}
  Arena(Arena&&) = default;  // a copy would return the same memory again
  Arena& operator=(Arena&&) = default;

  /// @throws std::bad_alloc
  template <class T>
  std::shared_ptr<T[]> make(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_alloc();
    const Piece piece = take(n * sizeof(T));
    return std::shared_ptr<T[]>(piece.owner, static_cast<T*>(piece.at));
  }
  /// Has the next `bytes` touched on another thread, in whole huge pages: what is left for pieces
  /// as large as the latest one, then the beginning of the next region.
  void touch_ahead(std::size_t bytes) noexcept;
  /// Returns when they are touched.
  void wait();

 private:
  struct Span {
    std::shared_ptr<void> owner;
    std::size_t size = 0, used = 0, touched = 0;  // bytes from its beginning
  };
  struct Piece {
    std::shared_ptr<void> owner;
    void* at;
  };
  Piece take(std::size_t bytes);
  Span map(std::size_t bytes) const;
  void touch(Span& span, std::size_t end);

  std::size_t region_;
  Memory memory_;
  std::size_t latest_ = 1;              // bytes
  Span current_, next_;                 // next_: mapped to be touched
  std::unique_ptr<Prefault> prefault_;  // from the first use on
};

}  // namespace forerun
