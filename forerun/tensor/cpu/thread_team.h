#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace forerun {

/// The threads of this process that compute a pass together. One job runs on all of them from its
/// first phase to its last, with barriers between phases: a pass has hundreds of phases of a few
/// microseconds each, for which forking and joining would cost more than the work. Waiting threads
/// spin briefly and then yield, so that a busy machine is not made busier.
class ThreadTeam {
 public:
  /// One thread's view of the job.
  class Worker {
   public:
    int index() const noexcept { return index_; }
    int count() const noexcept { return count_; }
    /// Returns when every thread of the team has called it.
    void barrier() noexcept;
    /// This thread's share of `items`: the range of a contiguous, even split.
    std::pair<std::int64_t, std::int64_t> share(std::int64_t items) const noexcept {
      return {items * index_ / count_, items * (index_ + 1) / count_};
    }

   private:
    friend class ThreadTeam;
    Worker(ThreadTeam& team, int index, int count) : team_(team), index_(index), count_(count) {}
    ThreadTeam& team_;
    int index_, count_;
  };

  /// The process's team.
  static ThreadTeam& instance();

  /// Runs `job` on `threads` threads, the calling one among them; returns when all are through. One
  /// job at a time: further callers wait. `job` must not throw.
  void run(int threads, const std::function<void(Worker&)>& job);

  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

 private:
  ThreadTeam() = default;
  ~ThreadTeam();
  void resize(int threads);
  void stop();
  void serve(int index, std::uint32_t seen);
  void arrive() noexcept;

  std::mutex one_job_;
  std::vector<std::thread> helpers_;
  const std::function<void(Worker&)>* job_ = nullptr;
  int count_ = 1;
  bool stop_ = false;
  alignas(64) std::atomic<std::uint32_t> started_{0};  // jobs handed out
  alignas(64) std::atomic<int> arrived_{0};            // at the current barrier
  alignas(64) std::atomic<std::uint32_t> passed_{0};   // barriers passed
};

}  // namespace forerun
