#include "forerun/tensor/cpu/thread_team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

namespace forerun {
namespace {

// Each phase reads what the previous one wrote: a phase that started early would read old numbers.
TEST(ThreadTeam, EveryPhaseSeesTheWholePhaseBefore) {
  for (const int threads : {1, 2, 3, 5}) {
    constexpr std::int64_t kItems = 37, kPhases = 200;
    std::vector<std::int64_t> even(kItems, 0), odd(kItems, 0);
    for (int repeat = 0; repeat < 10; ++repeat) {
      ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) {
        for (std::int64_t phase = 0; phase < kPhases; ++phase) {
          auto& from = phase % 2 == 0 ? even : odd;
          auto& to = phase % 2 == 0 ? odd : even;
          w.each(kItems, 1 + phase % 5, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
              to[static_cast<std::size_t>(i)] =
                  from[static_cast<std::size_t>((i + 1) % kItems)] + 1;
            }
          });
        }
      });
    }
    for (const std::int64_t v : even) EXPECT_EQ(v, 10 * kPhases) << threads << " threads";
  }
}

TEST(ThreadTeam, EveryItemIsDoneOnce) {
  for (const std::int64_t items : {0, 1, 2, 7, 64, 1000}) {
    for (const std::int64_t grain : {1, 3, 2000}) {
      std::vector<std::atomic<int>> done(static_cast<std::size_t>(items));
      ThreadTeam::instance().run(3, [&](ThreadTeam::Worker& w) {
        w.each(items, grain, [&](std::int64_t begin, std::int64_t end) {
          for (; begin < end; ++begin) ++done[static_cast<std::size_t>(begin)];
        });
      });
      for (const auto& d : done) EXPECT_EQ(d.load(), 1);
    }
  }
}

// Others do the pieces of a thread that is late, and go on; its own phases are in order when it
// comes.
TEST(ThreadTeam, ALateThreadFindsItsPiecesDone) {
  constexpr int kThreads = 3, kPhases = 60;
  std::vector<std::atomic<int>> done(kPhases);
  std::atomic<int> others{0};
  ThreadTeam::instance().run(kThreads, [&](ThreadTeam::Worker& w) {
    for (int phase = 0; phase < kPhases; ++phase) {
      if (w.index() == 1 && phase % 20 == 10) {  // until the others are some phases ahead
        while (others.load() < 2 * (phase + 5)) std::this_thread::yield();
      }
      w.each(7, 1, [&](std::int64_t begin, std::int64_t end) {
        done[static_cast<std::size_t>(phase)] += static_cast<int>(end - begin);
      });
      EXPECT_EQ(done[static_cast<std::size_t>(phase)].load(), 7);
      if (w.index() != 1) ++others;
    }
  });
  for (const auto& d : done) EXPECT_EQ(d.load(), 7);
}

// Several callers: their jobs run one after the other, whole.
TEST(ThreadTeam, JobsDoNotMix) {
  std::int64_t inside = 0, most = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat) {
        ThreadTeam::instance().run(2, [&](ThreadTeam::Worker& w) {
          w.each(1, 1, [&](std::int64_t, std::int64_t) { most = std::max(most, ++inside); });
          if (w.index() == 0) --inside;
        });
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(inside, 0);
}

// Nobody waits for a thread that threw, whether in a phase or between two; what comes after is
// skipped, and the next job is whole.
TEST(ThreadTeam, WhatAJobThrowsIsThrownByRun) {
  constexpr std::int64_t kItems = 7, kBetween = kItems;
  for (const int threads : {1, 2, 3}) {
    for (std::int64_t place = 0; place <= kBetween; ++place) {
      std::atomic<int> after{0};
      const auto failing = [&](ThreadTeam::Worker& w) {
        w.each(kItems, 1, [&](std::int64_t begin, std::int64_t end) {
          if (begin <= place && place < end) throw std::runtime_error("in a phase");
        });
        if (place == kBetween && w.index() == w.count() - 1) throw std::runtime_error("between");
        w.each(kItems, 1, [&](std::int64_t begin, std::int64_t end) {
          after += static_cast<int>(end - begin);
        });
      };
      try {
        ThreadTeam::instance().run(threads, failing);
        ADD_FAILURE() << place;
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), place == kBetween ? "between" : "in a phase");
      }
      EXPECT_TRUE(place == kBetween || after.load() == 0) << threads;
      std::vector<std::atomic<int>> done(kItems);
      ThreadTeam::instance().run(threads, [&](ThreadTeam::Worker& w) {
        for (int phase = 0; phase < 3; ++phase) {
          w.each(kItems, 1, [&](std::int64_t begin, std::int64_t end) {
            for (; begin < end; ++begin) ++done[static_cast<std::size_t>(begin)];
          });
        }
      });
      for (const auto& d : done) EXPECT_EQ(d.load(), 3);
    }
  }
}

// None of the helpers is in a process that was forked: it begins others.
TEST(ThreadTeam, WorksInAProcessThatWasForked) {
  const auto items_done = [] {
    std::atomic<std::int64_t> done{0};
    ThreadTeam::instance().run(9, [&](ThreadTeam::Worker& w) {
      w.each(1000, 1, [&](std::int64_t begin, std::int64_t end) { done += end - begin; });
    });
    return done.load();
  };
  ASSERT_EQ(items_done(), 1000);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // ends it if it waits for a helper
    // Threads that take the memory of the parent's helpers.
    std::thread([] {}).join();
    std::atomic<bool> end{false};
    std::thread other([&] {
      while (!end) std::this_thread::yield();
    });
    const bool right = items_done() == 1000 && items_done() == 1000;
    end = true;
    other.join();
    std::exit(right ? 7 : 1);  // and the team ends with it
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(items_done(), 1000);
}

TEST(ThreadTeam, OfSeveralFailuresOneIsThrown) {
  constexpr int kThreads = 3;
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> inside{0};
    const auto all_fail = [&](ThreadTeam::Worker& w) {
      w.each(kThreads, 1, [&](std::int64_t, std::int64_t) {
        ++inside;
        while (inside.load() < kThreads) std::this_thread::yield();
        throw std::runtime_error("each");
      });
    };
    EXPECT_THROW(ThreadTeam::instance().run(kThreads, all_fail), std::runtime_error);
    EXPECT_EQ(inside.load(), kThreads);
    EXPECT_NO_THROW(ThreadTeam::instance().run(kThreads, [](ThreadTeam::Worker&) {}));
  }
}

}  // namespace
}  // namespace forerun
