#include "forerun/train/data_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace forerun {
namespace {

std::vector<std::size_t> of_step(DataOrder& order, std::int64_t step) {
  const auto batch = order.of_step(step);
  return {batch.examples.begin(), batch.examples.end()};
}

TEST(DataOrder, AnEpochHoldsEveryExampleOnceInBatchesOfAlmostOneSize) {
  for (const std::size_t size : {1, 7, 100, 101}) {
    DataOrder order(size, 8, 3);
    EXPECT_EQ(order.steps_per_epoch(), static_cast<std::int64_t>((size + 7) / 8));
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::size_t> all;
      std::size_t least = size, most = 0;
      for (std::int64_t i = 1; i <= order.steps_per_epoch(); ++i) {
        const auto batch = of_step(order, epoch * order.steps_per_epoch() + i);
        least = std::min(least, batch.size());
        most = std::max(most, batch.size());
        all.insert(all.end(), batch.begin(), batch.end());
      }
      EXPECT_LE(most, 8U);
      EXPECT_LE(most - least, 1U);
      std::sort(all.begin(), all.end());
      std::vector<std::size_t> want(size);
      std::iota(want.begin(), want.end(), std::size_t{0});
      EXPECT_EQ(all, want);
    }
  }
}

TEST(DataOrder, DependsOnSeedAndStepAlone) {
  DataOrder once(50, 8, 1), again(50, 8, 1), other(50, 8, 2);
  const auto late = of_step(again, 23);  // first without the steps before
  for (std::int64_t step = 1; step < 23; ++step) of_step(once, step);
  EXPECT_EQ(of_step(once, 23), late);
  EXPECT_NE(of_step(other, 23), late);
  EXPECT_EQ(once.of_step(1).seed, again.of_step(7).seed) << "one epoch, one seed";
  EXPECT_NE(once.of_step(1).seed, again.of_step(8).seed);
  EXPECT_NE(once.of_step(1).seed, other.of_step(1).seed);
}

TEST(DataOrder, EveryPlaceIsAsLikelyForAnExample) {
  // 5 sigma in each of 10 places: fails by chance below 1e-5, and the seeds are fixed.
  constexpr int kTrials = 20000;
  std::vector<int> count(10);
  for (std::uint64_t seed = 0; seed < kTrials; ++seed) {
    DataOrder order(10, 10, seed);
    const auto all = of_step(order, 1);
    ++count[static_cast<std::size_t>(std::find(all.begin(), all.end(), 3U) - all.begin())];
  }
  for (const int c : count) EXPECT_NEAR(c, kTrials / 10, 5.0 * std::sqrt(kTrials * 0.09));
}

TEST(PartOf, RanksShareABatchWithoutGapOrOverlap) {
  std::vector<std::size_t> items(11);
  std::iota(items.begin(), items.end(), std::size_t{0});
  for (const int ranks : {1, 2, 3, 11, 13}) {
    std::vector<std::size_t> all;
    for (int r = 0; r < ranks; ++r) {
      const auto part = part_of(items, r, ranks);
      EXPECT_LE(part.size(),
                (11U + static_cast<unsigned>(ranks) - 1) / static_cast<unsigned>(ranks));
      all.insert(all.end(), part.begin(), part.end());
    }
    EXPECT_EQ(all, items);
  }
}

}  // namespace
}  // namespace forerun
