#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace forerun {

/// Touches memory before it is used, on a thread of lower priority that runs only while there is
/// something to touch: the first touch of a huge page takes up to 10 ms on a virtual machine, more
/// than a round. What the memory holds does not change, so it may be in use already. Optional:
/// where the system cannot (Linux before 5.14), memory is touched by its first use.
class Prefault {
 public:
  Prefault() = default;
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;
  /// Drops what was not begun.
  ~Prefault();

  /// @param owner  keeps the memory until it is touched
  /// @param at     at a multiple of the size of a page
  /// @param bytes  in steps of a huge page
  void add(std::shared_ptr<void> owner, void* at, std::size_t bytes);
  /// Returns when nothing is left to touch.
  void wait();

 private:
  struct Range {
    std::shared_ptr<void> owner;
    char* at;
    std::size_t bytes;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Range> ranges_;
  bool running_ = false;
  std::thread thread_;
};

}  // namespace forerun
