#include "forerun/tensor/cpu/thread_team.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <utility>

#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/spin_wait.h"

namespace forerun {
namespace {

// Keeps an idle helper awake for 2 ms: between passes the calling thread works alone for up to one,
// and a thread that sleeps takes 30 to 80 us to come back on a virtual machine. If another thread
// wants the core, the helper sleeps at once: one that yields comes back only when that thread's
// slice of milliseconds has ended, one that sleeps interrupts it.
class Wakefulness {
 public:
  /// Yields; whether to stay awake.
  bool yield() noexcept {
    sched_yield();
    const Clock::time_point now = Clock::now();
    const bool wanted = now - std::exchange(before_, now) > kWanted;
    return !wanted && now - start_ < kAwake;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kAwake{2000}, kWanted{200};
  Clock::time_point start_ = Clock::now(), before_ = start_;
};

// Forks that led to this process since its first team: the threads before them are not in it.
std::uint32_t forks() noexcept {
  static std::atomic<std::uint32_t> seen{0};
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { seen.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return seen.load(std::memory_order_relaxed);
}

// While products may keep the processor's state on this thread.
class KernelJob {
 public:
  KernelJob() {
    if (kernels_.begin_job != nullptr) kernels_.begin_job();
  }
  ~KernelJob() {
    if (kernels_.end_job != nullptr) kernels_.end_job();
  }
  KernelJob(const KernelJob&) = delete;
  KernelJob& operator=(const KernelJob&) = delete;

 private:
  const Kernels& kernels_ = kernels();
};

}  // namespace

ThreadTeam& ThreadTeam::instance() {
  static ThreadTeam team;
  return team;
}

ThreadTeam::~ThreadTeam() { stop(); }

bool ThreadTeam::Worker::ended(std::int64_t pieces) const noexcept {
  std::uint64_t done = 0;
  for (int k = 0; k < count_; ++k) {
    const std::uint64_t seen = seat(k).done.load(std::memory_order_acquire);
    if (seen >= phase_ + kPhase) return true;  // that thread has left this phase
    if (seen > phase_) done += seen - phase_;
  }
  return done >= static_cast<std::uint64_t>(pieces);
}

void ThreadTeam::Worker::wait(std::int64_t pieces) const noexcept {
  wait_until([&] { return ended(pieces); });
}

void ThreadTeam::run_job(Worker& worker) noexcept {
  const KernelJob begun;
  try {
    (*job_)(worker);
  } catch (...) {
    keep_failure();
  }
}

void ThreadTeam::keep_failure() noexcept {
  const std::scoped_lock lock(keeping_);
  if (!failed_) failed_ = std::current_exception();
  failing_.store(true, std::memory_order_relaxed);
}

void ThreadTeam::serve(int index, std::uint32_t seen) {
  for (;;) {
    const auto idle = [&] { return started_.load(std::memory_order_acquire) == seen; };
    for (int i = 0; i < kSpins && idle(); ++i) relax();
    for (Wakefulness awake; idle() && awake.yield();) {
    }
    while (idle()) started_.wait(seen, std::memory_order_acquire);
    ++seen;
    if (stop_) return;
    Worker worker(*this, index, count_);
    run_job(worker);
    inside_.fetch_sub(1, std::memory_order_release);
  }
}

// A process that was forked has none of its parent's threads. Their handles are kept for ever: the
// memory that they name may be a new thread's by now.
void ThreadTeam::forget_helpers() {
  static_cast<void>(new std::vector<std::thread>(std::exchange(helpers_, {})));
  count_ = 1;
}

void ThreadTeam::stop() {
  if (forks_ != forks()) forget_helpers();
  if (helpers_.empty()) return;
  stop_ = true;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (std::thread& t : helpers_) t.join();
  helpers_.clear();
  stop_ = false;
}

void ThreadTeam::resize(int threads) {
  const std::uint32_t now = forks();
  if (threads == count_ && forks_ == now) return;
  stop();
  forks_ = now;
  count_ = threads;
  const std::uint32_t seen = started_.load();
  try {
    for (int i = 1; i < threads; ++i) helpers_.emplace_back([this, i, seen] { serve(i, seen); });
  } catch (...) {  // the system has no more threads: use none rather than too few
    stop();
    count_ = 1;
    throw;
  }
}

void ThreadTeam::throw_failure() {
  failing_.store(false, std::memory_order_relaxed);
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
}

void ThreadTeam::run(int threads, const std::function<void(Worker&)>& job) {
  const std::scoped_lock only(one_job_);
  resize(threads < 1 ? 1 : threads);
  Worker own(*this, 0, count_);
  job_ = &job;
  if (count_ == 1) {
    run_job(own);
    return throw_failure();
  }
  if (seats_.size() < static_cast<std::size_t>(count_)) {
    seats_ = std::vector<Seat>(static_cast<std::size_t>(count_));
  }
  for (Seat& seat : seats_) {
    seat.taken.store(0, std::memory_order_relaxed);
    seat.done.store(0, std::memory_order_relaxed);
  }
  inside_.store(count_ - 1, std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  run_job(own);
  wait_until([this] { return inside_.load(std::memory_order_acquire) == 0; });
  throw_failure();
}

}  // namespace forerun
