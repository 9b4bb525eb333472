// What recurrent states take from a pool of memory, and what happens where it is full.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <random>

#include "tests/support/counted_text.h"

namespace forerun {
namespace {

using counted::CountedText;
using counted::kCounting;

TEST(RecurrentMemory, MemoryIsCountedAndGoesBack) {
  const auto pool = std::make_shared<KvPool>(std::size_t{1} << 30);
  {
    CountedText text(pool);
    EXPECT_EQ(pool->used(), 0U);
    std::mt19937 random(9);
    std::size_t journal = 0;  // of the text's bytes
    const std::size_t state = sizeof(float) * static_cast<std::size_t>(2 * kCounting.state());
    for (int i = 0; i < 300; ++i) {
      if (i % 20 == 7) text.state.hold(text.state.length());
      const RowPlan plan(1 + static_cast<std::int64_t>(random() % (i % 10 == 0 ? 100 : 6)));
      const std::size_t more = text.state.bytes_to_reserve(plan), before = pool->used();
      text.state.reserve(plan);
      EXPECT_EQ(text.state.bytes_to_reserve(plan), 0U);
      EXPECT_EQ(pool->used(), text.state.bytes());
      if (i == 0) {
        EXPECT_EQ(before + more, pool->used());
      } else if (more > 0) {  // the new journal in place of the old one
        EXPECT_EQ(before + more - journal, pool->used());
      } else {
        EXPECT_EQ(before, pool->used());
      }
      journal = pool->used() - state;
      text.chain(plan.rows());
      if (i % 4 == 0) text.truncate(text.state.length() - 1);
    }
  }
  EXPECT_EQ(pool->used(), 0U);
  {
    CountedText text(pool);
    text.state.remember();
    text.chain(30);
    text.state.remember();
    text.chain(30);
    EXPECT_EQ(pool->used(), text.state.bytes());
    const CountedText other = text.share(50), early = text.share(14);
    EXPECT_EQ(other.state.length(), 50);
    EXPECT_EQ(early.state.length(), 14);
  }
  EXPECT_EQ(pool->used(), 0U);
}

TEST(RecurrentMemory, WhereThePoolIsFullNothingChanges) {
  const std::size_t row = sizeof(float) * static_cast<std::size_t>(2 * kCounting.row());
  const std::size_t state = sizeof(float) * static_cast<std::size_t>(2 * kCounting.state());
  for (std::size_t limit = 0; limit < state + 12 * row; limit += 4) {
    const auto pool = std::make_shared<KvPool>(limit);
    CountedText text(pool);
    for (const std::int64_t rows : {3, 1, 5, 6}) {
      const RowPlan plan(rows);
      const std::size_t needed = text.state.bytes_to_reserve(plan), used = pool->used();
      const std::size_t bytes = text.state.bytes();
      if (needed <= pool->available()) {
        text.chain(rows);
        continue;
      }
      EXPECT_THROW(text.state.reserve(plan), KvPoolFull);
      EXPECT_EQ(pool->used(), used);
      EXPECT_EQ(text.state.bytes(), bytes);
      EXPECT_EQ(text.state.bytes_to_reserve(plan), needed);
      text.expect_whole();
    }
  }
}

// Where little is free a checkpoint is left out: it only saves time.
TEST(RecurrentMemory, CheckpointsTakeNoMemoryThatIsShort) {
  const std::size_t row = sizeof(float) * static_cast<std::size_t>(2 * kCounting.row());
  const std::size_t state = sizeof(float) * static_cast<std::size_t>(2 * kCounting.state());
  for (const std::size_t free : {std::size_t{0}, state, 3 * state, 4 * state}) {
    const auto pool = std::make_shared<KvPool>(state + 16 * row + free);
    CountedText text(pool);
    text.state.remember();
    text.chain(30);
    EXPECT_EQ(text.state.bytes() + (free == 4 * state ? 0U : state), 2 * state + 16 * row);
    text.chain(1);
    EXPECT_EQ(text.truncate(25), free == 4 * state ? 14 : 0);
    text.chain(1);
  }
}

}  // namespace
}  // namespace forerun
