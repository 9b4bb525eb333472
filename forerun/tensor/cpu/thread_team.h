#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace forerun {

/// The threads of this process that compute a pass together. One job runs on all of them from its
/// first phase to its last: a pass has hundreds of phases of a few microseconds each, for which
/// forking and joining would cost more than the work. A phase ends when its work is done, not when
/// every thread has arrived: a preempted thread delays only its current piece and skips pieces that
/// others have done.
class ThreadTeam {
 public:
  /// One thread's view of the job.
  class Worker {
   public:
    int index() const noexcept { return index_; }
    int count() const noexcept { return count_; }
    /// Start of this thread's own range of `pieces` in `each`; it ends where that of thread
    /// `index() + 1` starts.
    std::int64_t own_begin(std::int64_t pieces) const noexcept { return pieces * index_ / count_; }
    std::int64_t own_end(std::int64_t pieces) const noexcept {
      return pieces * (index_ + 1) / count_;
    }

    /// A phase: `work(begin, end)` for pieces of [0, items) of `grain` each; returns when all of it
    /// is done. Every thread calls it with the same numbers. A thread takes the pieces of its own
    /// range in order, then remaining pieces of the others.
    template <class Work>
    void each(std::int64_t items, std::int64_t grain, Work&& work) {
      if (items <= 0) return;
      if (count_ == 1) {
        work(std::int64_t{0}, items);
        return;
      }
      if (phase_ == team_.phases_) std::terminate();  // more phases than declared to `run`
      Counter* taken = team_.counters_.data() + phase_++ * static_cast<std::size_t>(count_ + 1);
      Counter& done = taken[count_];
      const std::int64_t pieces = (items + grain - 1) / grain;
      std::int64_t mine = 0;
      for (int k = 0; k < count_; ++k) {
        const int whose = (index_ + k) % count_;
        const std::int64_t begin = pieces * whose / count_, end = pieces * (whose + 1) / count_;
        for (std::int64_t i; (i = begin + taken[whose].next(end - begin)) < end; ++mine) {
          work(i * grain, i + 1 < pieces ? (i + 1) * grain : items);
        }
      }
      if (mine > 0) done.value.fetch_add(mine, std::memory_order_release);
      wait_for(done, pieces);
    }

   private:
    friend class ThreadTeam;
    Worker(ThreadTeam& team, int index, int count) : team_(team), index_(index), count_(count) {}
    struct Counter {
      alignas(64) std::atomic<std::int64_t> value{0};

      // The next number, or one that is not below `end`; writes only if one may be left.
      std::int64_t next(std::int64_t end) noexcept {
        const std::int64_t seen = value.load(std::memory_order_relaxed);
        return seen >= end ? seen : value.fetch_add(1, std::memory_order_relaxed);
      }
    };
    static void wait_for(const Counter& done, std::int64_t pieces) noexcept;

    ThreadTeam& team_;
    int index_, count_;
    std::size_t phase_ = 0;
  };

  /// The process's team.
  static ThreadTeam& instance();

  /// Runs `job` on `threads` threads, including the calling one; returns when all have finished.
  /// One job at a time: further callers wait. `job` must not throw.
  /// @param phases  largest number of phases of the job
  void run(int threads, std::size_t phases, const std::function<void(Worker&)>& job);

  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

 private:
  ThreadTeam() = default;
  ~ThreadTeam();
  void resize(int threads);
  void stop();
  void serve(int index, std::uint32_t seen);

  std::mutex one_job_;
  std::vector<std::thread> helpers_;
  const std::function<void(Worker&)>* job_ = nullptr;
  int count_ = 1;
  std::size_t phases_ = 0;
  bool stop_ = false;
  std::vector<Worker::Counter> counters_;  // of each phase: pieces taken of every range, and done
  alignas(64) std::atomic<std::uint32_t> started_{0};  // jobs started
  alignas(64) std::atomic<int> inside_{0};             // helpers still in the job
};

}  // namespace forerun
