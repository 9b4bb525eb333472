#include "forerun/tensor/parallel_for.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "forerun/base/format_error.h"

namespace forerun {
namespace {

class ParallelFor : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(2); }
  void TearDown() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST_F(ParallelFor, EveryIndexOnce) {
  for (const std::int64_t n : {0, 1, 7, 8, 9, 1000}) {
    std::vector<std::atomic<int>> times(static_cast<std::size_t>(n));
    parallel_for(0, n, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
    });
    for (const auto& t : times) EXPECT_EQ(t, 1);
  }
}

TEST_F(ParallelFor, PiecesRunAtTheSameTime) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "one thread under the thread sanitizer";
#endif
  std::mutex mutex;
  std::condition_variable both;
  std::set<std::thread::id> here;
  std::atomic<int> alone{0};
  parallel_for(0, 2, 1, [&](std::int64_t, std::int64_t) {
    std::unique_lock lock(mutex);
    here.insert(std::this_thread::get_id());
    both.notify_all();
    const auto met = [&] { return here.size() == 2; };
    if (!both.wait_for(lock, std::chrono::seconds(30), met)) ++alone;
  });
  EXPECT_EQ(here.size(), 2U);
  EXPECT_EQ(alone, 0);
}

TEST_F(ParallelFor, ThrowsWhatAPieceThrows) {
  std::atomic<int> done{0};
  const auto fails = [&](std::int64_t begin, std::int64_t end) {
    if (begin == 0) throw FormatError("of a piece");
    done += static_cast<int>(end - begin);
  };
  try {
    parallel_for(0, 64, 1, fails);
    FAIL();
  } catch (const FormatError& e) {
    EXPECT_STREQ(e.what(), "of a piece");
  }
#ifndef __SANITIZE_THREAD__
  EXPECT_EQ(done, 32);
#endif
  done = 0;  // a later loop runs as ever
  parallel_for(1, 64, 1, fails);
  EXPECT_EQ(done, 63);
}

TEST_F(ParallelFor, WithinAnotherItIsOneCall) {
  std::atomic<int> calls{0}, values{0};
  parallel_for(0, 2, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(0, 10, 1, [&](std::int64_t first, std::int64_t last) {
        ++calls;
        values += static_cast<int>(last - first);
      });
    }
  });
  EXPECT_EQ(values, 20);
#ifndef __SANITIZE_THREAD__
  EXPECT_EQ(calls, 2);
#endif
}

}  // namespace
}  // namespace forerun
