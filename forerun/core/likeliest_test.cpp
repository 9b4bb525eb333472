#include "forerun/core/likeliest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace forerun {
namespace {

std::vector<Token> sorted(const std::vector<float>& weights, std::size_t n) {
  std::vector<Token> all;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > -std::numeric_limits<float>::infinity()) all.push_back(static_cast<Token>(i));
  }
  std::stable_sort(all.begin(), all.end(), [&](Token a, Token b) {
    return weights[static_cast<std::size_t>(a)] > weights[static_cast<std::size_t>(b)];
  });
  all.resize(std::min(n, all.size()));
  return all;
}

TEST(Likeliest, EqualsASort) {
  std::mt19937 random(3);
  for (const std::size_t size : {0U, 1U, 63U, 64U, 65U, 1000U, 4097U}) {
    for (const int values : {3, 1000000}) {  // few values: many ties
      std::vector<float> weights(size);
      for (float& w : weights)
        w = static_cast<float>(static_cast<int>(random() % 1000000) % values);
      for (const std::size_t n : {0U, 1U, 8U, 200U}) {
        EXPECT_EQ(likeliest(weights, n), sorted(weights, n)) << size << " " << values << " " << n;
      }
    }
  }
}

TEST(Likeliest, LeavesOutWhatIsForbiddenOrNotANumber) {
  std::vector<float> weights(300, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(likeliest(weights, 8).empty());
  weights[7] = std::numeric_limits<float>::quiet_NaN();
  weights[250] = -3.0F;
  weights[131] = 2.0F;
  EXPECT_EQ(likeliest(weights, 8), (std::vector<Token>{131, 250}));
}

}  // namespace
}  // namespace forerun
