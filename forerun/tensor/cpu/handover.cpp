#include "forerun/tensor/cpu/handover.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>

#include "forerun/tensor/cpu/kernels/kernels.h"
#include "forerun/tensor/cpu/spin_wait.h"
#include "forerun/tensor/cpu/stream_fence.h"
#include "forerun/tensor/cpu/thread_team.h"

namespace forerun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLines = 256, kFloats = 16 * kLines;
constexpr int kTurns = 12;              // of each kind one half; the fastest counts
constexpr int kGroups = 2, kTrips = 8;  // of a line alone, after these; the faster group counts
constexpr int kBusy = 1000;             // looks at one

// A host leaves a processor where it is for seconds. Where measuring takes long (other work on the
// processors, a thread that sleeps) it takes no more than 1% of the time.
constexpr double kInterval = 0.1, kTimes = 100.0;  // seconds; times what measuring takes

struct Mailbox {
  alignas(128) std::atomic<int> asked{0};
  alignas(128) std::atomic<int> written{0};
  alignas(128) float lines[kFloats] = {};
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void write(Mailbox& box, int turn) {
  alignas(64) static constexpr float kZeros[kFloats] = {};
  // The kernel that writes most of a pass: out = silu(gate) * up.
  kernels().silu_gate_row(kZeros, kZeros, kFloats, box.lines, turn % 2 == 1);
  fence_streams();
  box.written.store(turn, std::memory_order_release);
}

double read(Mailbox& box, int turn) {
  const auto start = Clock::now();
  box.asked.store(turn, std::memory_order_release);
  wait_until([&] { return box.written.load(std::memory_order_acquire) == turn; });
  const volatile float* lines = box.lines;
  for (std::int64_t i = 0; i < kFloats; i += 16) static_cast<void>(lines[i]);
  return seconds_since(start);
}

// Without the pauses of wait_until at first, which are as long as what is measured.
void expect(const std::atomic<int>& word, int turn) {
  for (int i = 0; i < kBusy; ++i) {
    if (word.load(std::memory_order_acquire) == turn) return;
  }
  wait_until([&] { return word.load(std::memory_order_acquire) == turn; });
}

// Several trips for one reading of the clock, which may take as long as a trip.
double trips(Mailbox& box, int turn) {
  const auto start = Clock::now();
  for (const int behind = turn + kTrips; turn < behind; ++turn) {
    box.asked.store(turn, std::memory_order_release);
    expect(box.written, turn);
  }
  return seconds_since(start) / kTrips;
}

void answer(Mailbox& box, int turn) {
  for (const int behind = turn + kTrips; turn < behind; ++turn) {
    expect(box.asked, turn);
    box.written.store(turn, std::memory_order_release);
  }
}

std::atomic<std::optional<bool>>& forced() {
  static std::atomic<std::optional<bool>> answer{};
  return answer;
}

}  // namespace

Handover Handover::measured(int threads) {
  if (threads < 2 || !kernels().streams) return {};
  Mailbox box;
  double best[2] = {std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  double all = 0.0, trip = std::numeric_limits<double>::max();
  ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) {
    const auto start = Clock::now();
    for (int turn = 1; turn <= kTurns; ++turn) {
      if (w.index() == 0) {
        best[turn % 2] = std::min(best[turn % 2], read(box, turn));
        all = seconds_since(start);
      } else if (w.index() == w.count() - 1) {
        wait_until([&] { return box.asked.load(std::memory_order_acquire) == turn; });
        write(box, turn);
      }
    }
    for (int group = 0; group < kGroups; ++group) {
      const int turn = kTurns + 1 + group * kTrips;
      if (w.index() == 0) {
        trip = std::min(trip, trips(box, turn));
        all = seconds_since(start);
      } else if (w.index() == w.count() - 1) {
        answer(box, turn);
      }
    }
  });
  return {.cached = best[0], .past = best[1], .there_and_back = trip, .all = all};
}

namespace {

Handover lately(int threads) {
  static std::mutex one;
  static int measured_threads = 0;
  static Clock::time_point next;
  static Handover last;
  const std::scoped_lock lock(one);
  if (threads != measured_threads || Clock::now() >= next) {
    last = Handover::measured(threads);
    measured_threads = threads;
    const std::chrono::duration<double> wait(std::max(kInterval, kTimes * last.all));
    next = Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
  }
  return last;
}

}  // namespace

bool threads_are_far(int threads) {
  if (threads < 2 || !kernels().streams) return false;
  if (const auto known = forced().load(std::memory_order_relaxed)) return *known;
  return lately(threads).far();
}

std::optional<bool> threads_have_common_cache(int threads) {
  if (threads < 2 || !kernels().streams) return {};
  return lately(threads).common_cache();
}

void set_threads_are_far(std::optional<bool> far) {
  forced().store(far, std::memory_order_relaxed);
}

}  // namespace forerun
