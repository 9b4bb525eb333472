#include "forerun/tensor/cpu/arena.h"

#include <gtest/gtest.h>

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
