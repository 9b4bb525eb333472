#include "forerun/core/block_maxima.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace forerun {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

TEST(BlockMaxima, AreTheLargestOfEachBlock) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const std::size_t size : {1U, 15U, 16U, 17U, 63U, 64U, 65U, 1000U}) {
    std::vector<float> x(size);
    for (float& v : x) v = normal(random);
    for (const std::size_t block : {1U, 16U, 64U, 100U}) {
      const std::vector<float> maxima = block_maxima(x, block);
      ASSERT_EQ(maxima.size(), (size + block - 1) / block);
      for (std::size_t b = 0; b < maxima.size(); ++b) {
        const auto begin = x.begin() + static_cast<std::ptrdiff_t>(b * block);
        const auto end = x.begin() + static_cast<std::ptrdiff_t>(std::min(size, (b + 1) * block));
        EXPECT_EQ(maxima[b], *std::max_element(begin, end));
      }
      for (std::size_t n = 1; n <= maxima.size(); ++n) {
        const float nth = nth_largest(maxima, n);
        EXPECT_GE(std::count_if(x.begin(), x.end(), [&](float v) { return v >= nth; }),
                  static_cast<std::ptrdiff_t>(n));
      }
    }
  }
}

TEST(BlockMaxima, OfStridedPiecesAreTheirLargest) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for (const std::size_t size : {1U, 16U, 17U, 100U, 1000U}) {
    std::vector<float> x(size);
    for (float& v : x) v = normal(random);
    x[size / 2] = std::numeric_limits<float>::quiet_NaN();
    for (const std::size_t pieces : {std::size_t{1}, std::size_t{7}, std::size_t{16}, size}) {
      if (pieces > size) continue;
      std::vector<float> want(pieces, kMinusInfinity);
      for (std::size_t i = 0; i < size; ++i) {
        if (x[i] > want[i % pieces]) want[i % pieces] = x[i];
      }
      EXPECT_EQ(strided_maxima(x, pieces), want) << size << ' ' << pieces;
    }
  }
}

TEST(BlockMaxima, NthLargestIsThatOfASortedRow) {
  const std::vector<float> x = {2.0F, -1.0F, 2.0F, 0.5F, 7.0F};
  std::vector<float> sorted = x;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (std::size_t n = 1; n <= x.size(); ++n) EXPECT_EQ(nth_largest(x, n), sorted[n - 1]);
  EXPECT_EQ(nth_largest(x, x.size() + 1), kMinusInfinity);
}

TEST(BlockMaxima, NthLargestIsThatOfASortedRowForFewAndMany) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> value(-40, 40);  // with ties
  std::vector<float> x(300);
  for (float& v : x) v = static_cast<float>(value(random)) * 0.25F;
  x[7] = x[100] = kMinusInfinity;
  std::vector<float> sorted = x;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (std::size_t n = 1; n <= x.size(); ++n) EXPECT_EQ(nth_largest(x, n), sorted[n - 1]) << n;
}

TEST(BlockMaxima, NearNthLargestIsALittleBelowIt) {
  std::mt19937 random(4);
  constexpr float kRange = 12.0F;
  for (const float spread : {0.0F, 1e-4F, 2.0F, 9.0F}) {
    for (const float centre : {0.0F, -3e4F, 700.0F}) {
      std::normal_distribution<float> normal(0.0F, std::max(spread, 1e-6F));
      std::vector<float> x(500);
      for (float& v : x) v = centre + (spread == 0.0F ? 0.0F : normal(random));
      x[3] = kMinusInfinity;
      x[4] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> sorted = x;
      sorted.erase(sorted.begin() + 4);
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      const float rounding = std::abs(centre) * 1e-6F;
      for (std::size_t n = 1; n <= sorted.size(); ++n) {
        const float near = near_nth_largest(x, sorted[0], kRange, n);
        const float nth = std::max(sorted[n - 1], sorted[0] - kRange);
        EXPECT_LE(near, nth + (nth > sorted[0] - kRange ? 0.0F : rounding)) << n;
        EXPECT_GE(near, nth - kRange / 128.0F - rounding) << n << ' ' << spread << ' ' << centre;
      }
    }
  }
}

TEST(BlockMaxima, PassOverNaN) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(40, kNan);
  EXPECT_EQ(largest(x), kMinusInfinity);
  x[3] = -5.0F;
  x[38] = 4.0F;  // behind the last whole 16
  EXPECT_EQ(largest(x), 4.0F);
  EXPECT_EQ(block_maxima(x, 16), (std::vector<float>{-5.0F, kMinusInfinity, 4.0F}));
  EXPECT_EQ(largest({}), kMinusInfinity);
  EXPECT_TRUE(block_maxima({}, 16).empty());
}

}  // namespace
}  // namespace forerun
