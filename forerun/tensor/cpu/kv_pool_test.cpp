#include "forerun/tensor/cpu/kv_pool.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "forerun/tensor/cpu/kv_pages.h"

namespace forerun {
namespace {

TEST(KvPool, CountsWhatIsHeldAndServesFreedPagesAgain) {
  const auto pool = std::make_shared<KvPool>(1000);
  const std::uint8_t* first = nullptr;
  {
    const KvPool::Page a = pool->page(300), b = pool->page(300), copy = a;
    const auto charge = pool->charge(200);
    first = b.get();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
    EXPECT_EQ(pool->used(), 800U);
    EXPECT_EQ(pool->available(), 200U);
  }
  EXPECT_EQ(pool->used(), 0U);
  const KvPool::Page again[] = {pool->page(300), pool->page(300)};
  EXPECT_TRUE(again[0].get() == first || again[1].get() == first);
}

TEST(KvPool, RefusesMoreThanItsLimitAndTakesNothingThen) {
  const auto pool = std::make_shared<KvPool>(1000);
  const KvPool::Page page = pool->page(600);
  EXPECT_THROW(pool->page(401), KvPoolFull);
  EXPECT_THROW(pool->charge(401), KvPoolFull);
  EXPECT_THROW(pool->require(401), KvPoolFull);
  EXPECT_NO_THROW(pool->require(400));
  EXPECT_EQ(pool->used(), 600U);
  try {
    pool->page(401);
  } catch (const KvPoolFull& e) {
    EXPECT_NE(std::string(e.what()).find("401 bytes requested, 600 of 1000"), std::string::npos);
  }
}

TEST(KvPool, LivesAsLongAsItsPages) {
  auto pool = std::make_shared<KvPool>();
  KvPool::Page page = pool->page(100);
  pool.reset();
  page[0] = 1;
  page.reset();
}

// Pages of this size have a region each; one that is touched ahead is mapped.
TEST(KvPool, TouchesNoMemoryAheadBeyondItsLimit) {
  const auto mapped = [] {
    std::ifstream in("/proc/self/statm");
    std::size_t pages = 0;
    in >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  };
  for (const std::size_t pages : {1, 3}) {
    const std::size_t bytes = (std::size_t{17} + 2 * pages) << 20;  // regions of no other user
    const std::size_t before = mapped();
    const auto pool = std::make_shared<KvPool>(pages * bytes);
    const KvPool::Page page = pool->page(bytes);
    if (pages == 1) {
      EXPECT_LT(mapped() - before, bytes * 3 / 2);
    } else {
      EXPECT_GT(mapped() - before, bytes * 3 / 2);
    }
    EXPECT_EQ(pool->used(), bytes);
  }
}

// SmolLM2-135M's shape, 500 positions each: their pages, and little beside.
TEST(KvPages, SixtyFourIdleSequencesTakeTheirPagesAndLittleBeside) {
  const auto pool = std::make_shared<KvPool>();
  constexpr std::size_t kPage = std::size_t{30} * 3 * (2 * 64 * 64 + 2 * 64 * 4);
  const auto heap = [] {
    const auto now = mallinfo2();
    return now.uordblks + now.hblkhd;
  };
  const std::size_t before = heap();
  std::vector<KvPages> sequences;
  for (int i = 0; i < 64; ++i) {
    sequences.emplace_back(KvPages::Shape{30, 3, 64}, pool);
    sequences.back().reserve(0, 510);
    sequences.back().release_after(500);
    EXPECT_EQ(sequences.back().bytes(), 8 * kPage);
  }
  EXPECT_EQ(pool->used(), 64 * 8 * kPage);
  EXPECT_LT(heap() - before, std::size_t{64} * 20'000);
}

TEST(KvPages, ACopiedPlaceHoldsTheSameAndNoOtherChanges) {
  constexpr std::int64_t kDim = 24;
  KvPages a({2, 3, kDim}), b({2, 3, kDim});
  for (KvPages* pages : {&a, &b}) {
    pages->reserve(0, 64, 70);
    EXPECT_EQ(pages->capacity(), 64);
    for (std::int64_t place = 0; place < 192; ++place) {
      // Place 5 of b is written as place 64 + 66 of both.
      const std::int64_t text = pages == &b && place == 5 ? 130 : place;
      float k[kDim], v[kDim];
      for (std::int64_t h = 0; h < 6; ++h) {
        for (std::int64_t d = 0; d < kDim; ++d) {
          k[d] = static_cast<float>((text * 31 + h * 7 + d * d) % 101 - 50);
          v[d] = static_cast<float>((text * 17 + h * 3 + d * d) % 89 - 44);
        }
        pages->write(h / 3, h % 3, place, k, v);
      }
    }
  }
  a.copy(130, 5);
  for (std::int64_t page = 0; page < 3; ++page) {
    EXPECT_EQ(std::memcmp(a.keys(0, 0, page), b.keys(0, 0, page), a.bytes() / 3), 0) << page;
  }
}

}  // namespace
}  // namespace forerun
