#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "forerun/tensor/cpu/spin_wait.h"
#include "forerun/tensor/cpu/stream_fence.h"

namespace forerun {

/// The threads of this process that compute a pass together. One job runs on all of them from its
/// first phase to its last: a pass has hundreds of phases of a few microseconds each, for which
/// forking and joining would cost more than the work. A phase ends when its work is done, not when
/// every thread has arrived: a preempted thread delays only its current piece and skips pieces that
/// others have done.
class ThreadTeam {
  // Two counters of a thread: pieces of its range that are taken, by any thread, and pieces that it
  // has done. Each holds the phase's number times kPhase plus the count, so one counter serves all
  // phases and a late thread sees that a phase has passed. Each has cache lines of its own: a
  // transfer between distant cores takes 300 ns.
  struct Seat {
    alignas(128) std::atomic<std::uint64_t> taken{0};
    alignas(128) std::atomic<std::uint64_t> done{0};
  };
  static constexpr int kCountBits = 31;
  static constexpr std::uint64_t kPhase = std::uint64_t{1} << (kCountBits + 1);

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
      phase_ += kPhase;
      grain = std::max(grain, (items >> kCountBits) + 1);
      const std::int64_t pieces = (items + grain - 1) / grain;
      std::uint64_t mine = 0;
      const bool helped = std::exchange(helped_, false);
      for (int k = 0; k < count_; ++k) {
        if (k == 1 && ended_within(helped ? 0 : kPauses, pieces)) return;
        const int whose = (index_ + k) % count_;
        const std::int64_t begin = pieces * whose / count_, end = pieces * (whose + 1) / count_;
        const std::uint64_t before = mine;
        for (std::int64_t i; (i = begin + take(whose, end - begin)) < end; ++mine) {
          if (k == 0 && i == std::max(begin, end - 2)) ask_who_is_done();
          if (team_.failing_.load(std::memory_order_relaxed)) continue;
          try {
            work(i * grain, i + 1 < pieces ? (i + 1) * grain : items);
          } catch (...) {  // the piece counts as done: the others wait for it
            team_.keep_failure();
          }
        }
        // Before the others' pieces are looked for: these may wait for nothing else.
        if (mine != before) {
          fence_streams();
          seat(index_).done.store(phase_ + mine, std::memory_order_release);
          if (k > 0) helped_ = true;
        }
      }
      wait(pieces);
    }

   private:
    friend class ThreadTeam;
    Worker(ThreadTeam& team, int index, int count) : team_(team), index_(index), count_(count) {}
    Seat& seat(int thread) const noexcept { return team_.seats_[static_cast<std::size_t>(thread)]; }
    // The next piece of a thread's range of `size`; `size` or more if none is left.
    std::int64_t take(int whose, std::int64_t size) noexcept {
      std::atomic<std::uint64_t>& taken = seat(whose).taken;
      std::uint64_t seen = taken.load(std::memory_order_relaxed);
      for (;;) {
        const std::uint64_t next = std::max(seen, phase_);  // of a later phase: a large number
        const auto piece = static_cast<std::int64_t>(next - phase_);
        if (piece >= size ||
            taken.compare_exchange_weak(seen, next + 1, std::memory_order_relaxed)) {
          return piece;
        }
      }
    }
    static constexpr int kPauses = 64;  // pauses: one or two microseconds

    bool ended(std::int64_t pieces) const noexcept;
    // The counters of threads that are done already have arrived when this one is. Measured with
    // two threads; with many each counter would have many readers.
    void ask_who_is_done() const noexcept {
      constexpr int kMost = 4;
      for (int k = 0; k < count_; ++k) {
        if (k != index_ && count_ <= kMost) __builtin_prefetch(&seat(k).done);
      }
    }
    // Whether the phase ends before so many pauses have passed. Looking for pieces that another
    // thread has left takes the line of its counter away from it; if it is about to end, it then
    // waits for that line in the next phase. After a phase in which another was late nobody
    // waits so.
    bool ended_within(int pauses, std::int64_t pieces) const noexcept {
      for (; !ended(pieces); --pauses) {
        if (pauses == 0) return false;
        relax();
      }
      return true;
    }

    void wait(std::int64_t pieces) const noexcept;

    ThreadTeam& team_;
    int index_, count_;
    std::uint64_t phase_ = 0;  // times kPhase
    bool helped_ = false;      // took pieces of others in the phase before
  };

  /// The process's team.
  static ThreadTeam& instance();

  /// Runs `job` on `threads` threads, including the calling one; returns when all have finished.
  /// One job at a time: further callers wait. What `job`, or the work of a phase, throws is thrown
  /// here when all have finished, of several one; pieces that begin after it are skipped. Threads
  /// that wait for each other in a way of their own must not throw.
  void run(int threads, const std::function<void(Worker&)>& job);

  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

 private:
  ThreadTeam() = default;
  ~ThreadTeam();
  void resize(int threads);
  void stop();
  void forget_helpers();
  void serve(int index, std::uint32_t seen);
  void run_job(Worker& worker) noexcept;
  void keep_failure() noexcept;
  void throw_failure();

  std::mutex one_job_, keeping_;
  std::exception_ptr failed_;  // the first of a job
  alignas(64) std::atomic<bool> failing_{false};
  std::vector<std::thread> helpers_;
  const std::function<void(Worker&)>* job_ = nullptr;
  int count_ = 1;
  std::uint32_t forks_ = 0;  // before the helpers began
  bool stop_ = false;
  std::vector<Seat> seats_;                            // of each thread
  alignas(64) std::atomic<std::uint32_t> started_{0};  // jobs started
  alignas(64) std::atomic<int> inside_{0};             // helpers still in the job
};

}  // namespace forerun
