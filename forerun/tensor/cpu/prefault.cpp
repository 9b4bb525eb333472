#include "forerun/tensor/cpu/prefault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace forerun {
namespace {

constexpr std::size_t kStep = std::size_t{2}
                              << 20;  // of one call: what an end may have to wait for
constexpr int kNicer = 10;            // than the thread that asked

// False: the system cannot.
bool populate(char* at, std::size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
  return madvise(at, bytes, MADV_POPULATE_WRITE) == 0;
#else
  static_cast<void>(at), static_cast<void>(bytes);
  return false;
#endif
}

}  // namespace

Prefault::~Prefault() {
  {
    const std::scoped_lock lock(mutex_);
    ranges_.clear();
  }
  if (thread_.joinable()) thread_.join();
}

void Prefault::add(std::shared_ptr<void> owner, void* at, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  ranges_.push_back({std::move(owner), static_cast<char*>(at), bytes});
  if (running_) return;
  if (thread_.joinable()) thread_.join();
  try {
    thread_ = std::thread([this] { run(); });
    running_ = true;
  } catch (const std::exception&) {  // the system has no more threads
    ranges_.clear();
  }
}

void Prefault::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return !running_; });
}

void Prefault::run() {
  static_cast<void>(!nice(kNicer));  // on Linux, of this thread alone
  std::unique_lock lock(mutex_);
  while (!ranges_.empty()) {
    Range& next = ranges_.front();
    const Range part{next.owner, next.at, std::min(next.bytes, kStep)};
    next.at += part.bytes;
    next.bytes -= part.bytes;
    if (next.bytes == 0) ranges_.pop_front();
    lock.unlock();
    const bool touched = populate(part.at, part.bytes);
    lock.lock();
    if (!touched) ranges_.clear();
  }
  running_ = false;
  idle_.notify_all();
}

}  // namespace forerun
