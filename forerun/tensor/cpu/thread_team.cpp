#include "forerun/tensor/cpu/thread_team.h"

#include <sched.h>

#include "forerun/tensor/cpu/kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace forerun {
namespace {

void relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Pauses of 10 ns to 40 ns each: about 50 us before the core is yielded.
constexpr int kSpins = 2000;
// Yields before an idle helper sleeps; between passes the calling thread works alone for a fraction
// of a millisecond.
constexpr int kYields = 200;

template <class Ready>
void wait_until(Ready ready) noexcept {
  for (int i = 0; !ready(); ++i) {
    if (i < kSpins) {
      relax();
    } else {
      sched_yield();
    }
  }
}

// A job on this thread, while products may keep the processor's state.
void run_job(const std::function<void(ThreadTeam::Worker&)>& job, ThreadTeam::Worker& worker) {
  const Kernels& k = kernels();
  if (k.begin_job != nullptr) k.begin_job();
  job(worker);
  if (k.end_job != nullptr) k.end_job();
}

}  // namespace

ThreadTeam& ThreadTeam::instance() {
  static ThreadTeam team;
  return team;
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::Worker::wait_for(const Counter& done, std::int64_t pieces) noexcept {
  wait_until([&] { return done.value.load(std::memory_order_acquire) >= pieces; });
}

void ThreadTeam::serve(int index, std::uint32_t seen) {
  for (;;) {
    for (int i = 0; started_.load(std::memory_order_acquire) == seen; ++i) {
      if (i < kSpins) {
        relax();
      } else if (i < kSpins + kYields) {
        sched_yield();
      } else {
        started_.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;
    if (stop_) return;
    Worker worker(*this, index, count_);
    run_job(*job_, worker);
    inside_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadTeam::stop() {
  if (helpers_.empty()) return;
  stop_ = true;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (std::thread& t : helpers_) t.join();
  helpers_.clear();
  stop_ = false;
}

void ThreadTeam::resize(int threads) {
  if (threads == count_) return;
  stop();
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

void ThreadTeam::run(int threads, std::size_t phases, const std::function<void(Worker&)>& job) {
  const std::scoped_lock only(one_job_);
  resize(threads < 1 ? 1 : threads);
  Worker own(*this, 0, count_);
  if (count_ == 1) {
    run_job(job, own);
    return;
  }
  phases_ = phases;
  const std::size_t counters = phases * static_cast<std::size_t>(count_ + 1);
  if (counters_.size() < counters) counters_ = std::vector<Worker::Counter>(counters);
  for (std::size_t i = 0; i < counters; ++i) {
    counters_[i].value.store(0, std::memory_order_relaxed);
  }
  job_ = &job;
  inside_.store(count_ - 1, std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  [&]() noexcept { run_job(job, own); }();  // helpers use the job until they have left it
  wait_until([this] { return inside_.load(std::memory_order_acquire) == 0; });
}

}  // namespace forerun
