#include "forerun/tensor/cpu/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace forerun {
namespace {

constexpr std::size_t kRegion = std::size_t{6} << 20;  // bytes; of no other user

TEST(Arena, NewMemoryIsZeroedAlignedAndApart) {
  Arena arena(kRegion);
  std::vector<std::shared_ptr<std::uint32_t[]>> pieces;
  for (std::size_t n : {1, 100, 1000000, 3000000}) {  // the last one does not fit beside the others
    auto piece = arena.make<std::uint32_t>(n);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece.get()) % 64, 0U);
    EXPECT_EQ(std::count(piece.get(), piece.get() + n, 0U), static_cast<std::ptrdiff_t>(n));
    std::memset(piece.get(), 0xff, n * sizeof(std::uint32_t));
    pieces.push_back(std::move(piece));
  }
  EXPECT_THROW(arena.make<std::uint32_t>(static_cast<std::size_t>(-1) / 4), std::bad_alloc);
}

TEST(Arena, UsedRegionsServeAgainAndNewOnesStayZeroed) {
  const auto fill = [](Arena arena) {
    const auto piece = arena.make<std::uint8_t>(kRegion);
    std::memset(piece.get(), 0xff, kRegion);
    return piece.get();
  };
  const std::uint8_t* first = fill(Arena(kRegion, Arena::Memory::kUsed));
  Arena again(kRegion, Arena::Memory::kUsed), other(kRegion, Arena::Memory::kUsed);
  const auto piece = again.make<std::uint8_t>(1), apart = other.make<std::uint8_t>(1);
  EXPECT_EQ(piece.get(), first);
  EXPECT_EQ(piece[0], 0xff);
  EXPECT_NE(apart.get(), first);
  const auto fresh = Arena(kRegion).make<std::uint8_t>(kRegion);
  EXPECT_EQ(std::count(fresh.get(), fresh.get() + kRegion, 0),
            static_cast<std::ptrdiff_t>(kRegion));
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Of the MiB at `at`: whether its memory is there, all of it or none.
bool resident(const std::uint8_t* at) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(kMiB / page);
  EXPECT_EQ(mincore(const_cast<std::uint8_t*>(at), kMiB, pages.data()), 0);
  const auto there = std::count_if(pages.begin(), pages.end(), [](auto p) { return (p & 1) != 0; });
  EXPECT_TRUE(there == 0 || there == static_cast<std::ptrdiff_t>(pages.size())) << there;
  return there != 0;
}

// New regions of 8 MiB, pieces of 3: two in a region.
TEST(Arena, TouchesTheNextPiecesAheadAndNothingElse) {
#ifndef MADV_POPULATE_WRITE
  GTEST_SKIP() << "the system cannot touch memory ahead";
#else
  Arena arena(8 * kMiB);
  const auto first = arena.make<std::uint8_t>(3 * kMiB);
  const auto base = first.get();
  if (madvise(base, kMiB, MADV_POPULATE_WRITE) != 0) GTEST_SKIP() << "an old kernel";
  arena.touch_ahead(kMiB);  // in the huge page that is in use already: left to its first use
  arena.wait();
  EXPECT_FALSE(resident(base + 2 * kMiB));
  EXPECT_FALSE(resident(base + 4 * kMiB));
  arena.touch_ahead(2 * kMiB);
  arena.wait();
  const std::vector<bool> expected = {true, true, false, false, true, true, false, false};
  for (std::size_t i = 1; i < 8; ++i) {
    if (i / 2 == 0) continue;  // the first huge page may be one, or small pages
    EXPECT_EQ(resident(base + i * kMiB), expected[i]) << i;
  }
  // 3 MiB are left for a piece, 2 of the next region follow.
  base[0] = 7;
  arena.touch_ahead(5 * kMiB);
  arena.wait();
  EXPECT_EQ(base[0], 7);
  const auto second = arena.make<std::uint8_t>(3 * kMiB);
  EXPECT_EQ(second.get(), base + 3 * kMiB);
  const auto third = arena.make<std::uint8_t>(3 * kMiB);
  EXPECT_TRUE(resident(third.get()));
  EXPECT_TRUE(resident(third.get() + kMiB));
  EXPECT_FALSE(resident(third.get() + 2 * kMiB));
  // A piece larger than a region.
  const auto large = arena.make<std::uint8_t>(9 * kMiB);
  arena.touch_ahead(kMiB);
  arena.wait();
  const auto next = arena.make<std::uint8_t>(9 * kMiB);
  EXPECT_TRUE(resident(next.get()));
  EXPECT_FALSE(resident(next.get() + 2 * kMiB));
#endif
}

TEST(Arena, EndsWhileItsMemoryIsTouched) {
  for (int i = 0; i < 20; ++i) {
    Arena arena(kRegion, Arena::Memory::kUsed);
    const auto piece = arena.make<std::uint8_t>(1);
    arena.touch_ahead(2 * kRegion);
    piece[0] = 1;
  }
}

TEST(Arena, MoreRegionsThanAreKeptAndSeveralThreads) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::shared_ptr<int[]>> pieces;
        for (int i = 0; i < 5; ++i) {
          pieces.push_back(Arena(kRegion, Arena::Memory::kUsed).make<int>(1));
          pieces.back()[0] = 100 * t + i;
        }
        for (int i = 0; i < 5; ++i) {
          EXPECT_EQ(pieces[static_cast<std::size_t>(i)][0], 100 * t + i);
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace forerun
