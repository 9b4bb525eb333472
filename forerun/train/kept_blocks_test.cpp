#include "forerun/train/internal/kept_blocks.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace forerun {
namespace {

using internal::KeptBlocks;

TEST(KeptBlocks, GivesAFreedBlockToTheNextTensorOfItsSize) {
  const KeptBlocks kept;
  const void* const first = at::zeros({100, 1000}).data_ptr();
  const at::Tensor again = at::zeros({99, 1000}), other = at::zeros({99, 1000});
  EXPECT_EQ(again.data_ptr(), first);
  EXPECT_NE(other.data_ptr(), first);
}

TEST(KeptBlocks, ABlockMayBeUsedForATensorOfHalfItsSizeButNotForAMuchSmallerOne) {
  const KeptBlocks kept;
  const void* const large = at::zeros({250'000}).data_ptr();
  const at::Tensor small = at::zeros({25'000}), half = at::zeros({150'000});
  EXPECT_NE(small.data_ptr(), large);
  EXPECT_EQ(half.data_ptr(), large);
}

TEST(KeptBlocks, TensorsOfEverySizeAreAlignedAndDoNotOverlap) {
  const KeptBlocks kept;
  for (int round = 0; round < 2; ++round) {
    std::vector<at::Tensor> held;
    for (std::int64_t n = 0; n < 6'000'000; n = n * 5 / 4 + 1) {
      held.push_back(at::full({n}, static_cast<std::int64_t>(held.size() % 100), at::kByte));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back().data_ptr()) % 64, 0u);
    }
    for (std::size_t i = 0; i < held.size(); ++i) {
      EXPECT_TRUE(held[i].eq(static_cast<std::int64_t>(i % 100)).all().item<bool>()) << i;
    }
  }
}

TEST(KeptBlocks, TensorsOutliveTheCacheAndItsAllocatorGoesWithTheLastUser) {
  c10::Allocator* const before = c10::GetCPUAllocator();
  std::optional<KeptBlocks> a(std::in_place), b(std::in_place);
  const at::Tensor x = at::ones({70'000});
  EXPECT_NE(c10::GetCPUAllocator(), before);
  a.reset();
  EXPECT_NE(c10::GetCPUAllocator(), before);
  at::Tensor y = at::ones({70'000});
  b.reset();
  EXPECT_EQ(c10::GetCPUAllocator(), before);
  y.reset();  // freed, not kept
  EXPECT_EQ(x.sum().item<float>(), 70'000.0f);
}

TEST(KeptBlocks, ServesThreads) {
  const KeptBlocks kept;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const at::Tensor x = at::full({1000 + 37 * (i % 50)}, t, at::kInt);
        EXPECT_TRUE(x.eq(t).all().item<bool>());
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace forerun
