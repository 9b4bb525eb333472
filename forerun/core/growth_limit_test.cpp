#include "forerun/core/growth_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace forerun {
namespace {

// The number of nodes with the most outputs a second.
std::size_t best_of(const std::vector<double>& reach, std::size_t nodes,
                    const std::vector<double>& seconds) {
  double outputs = 1.0, best = 1.0 / seconds[0];
  std::size_t at = 0;
  for (std::size_t n = 1; n <= nodes; ++n) {
    outputs += reach[n - 1];
    if (outputs / seconds[n] <= best) continue;
    best = outputs / seconds[n];
    at = n;
  }
  return at;
}

std::size_t grown(GrowthLimit limit, const std::vector<double>& reach) {
  std::size_t n = 0;
  while (n < reach.size() && limit.grow(reach[n])) ++n;
  return n;
}

TEST(GrowthLimit, NeverEndsATreeWithoutCosts) {
  EXPECT_EQ(grown(GrowthLimit(), std::vector<double>(40, 0.0)), 40U);
}

TEST(GrowthLimit, EndsWhereNothingThatFollowsCanPay) {
  // A row costs a tenth of a pass, which by then gives two outputs: a node has to give a fifth.
  std::vector<double> seconds;
  for (int n = 0; n <= 15; ++n) seconds.push_back(1.0 + 0.1 * n);
  const GrowthLimit limit(seconds);
  EXPECT_EQ(grown(limit, {0.9, 0.5, 0.3, 0.2, 0.1, 0.1, 0.1}), 3U);
  EXPECT_EQ(grown(limit, {0.9, 0.5, 0.01, 0.01}), 2U);
  EXPECT_EQ(grown(limit, {0.05, 0.05, 0.05}), GrowthLimit::kLeast);
  EXPECT_EQ(grown(limit, {0.05}), 1U);
}

TEST(GrowthLimit, LooksBeyondARowThatCostsMuch) {
  // The third node does not pay by itself; with the two after it, which are free, it does.
  const std::vector<double> seconds = {1.0, 1.01, 1.02, 1.4, 1.4, 1.4};
  EXPECT_EQ(grown(GrowthLimit(seconds), {0.5, 0.4, 0.35, 0.35, 0.35}), 5U);
  EXPECT_EQ(grown(GrowthLimit(seconds), {0.5, 0.4, 0.2, 0.2, 0.2}), 2U);
}

TEST(GrowthLimit, TheBestNumberOfNodesIsThatOfTheWholeTree) {
  std::mt19937_64 random(5);
  const auto uniform = [&] { return std::uniform_real_distribution<double>()(random); };
  std::size_t whole = 0, kept = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::vector<double> reach(15), seconds = {1.0};
    for (double& r : reach) r = uniform() * uniform();
    std::sort(reach.rbegin(), reach.rend());
    // Any costs that do not fall, with steps and flat parts.
    const double steep = 0.5 * uniform();
    while (seconds.size() < 16) {
      seconds.push_back(seconds.back() + (uniform() < 0.4 ? steep * uniform() : 0.0));
    }
    const std::size_t n = grown(GrowthLimit(seconds), reach);
    ASSERT_EQ(best_of(reach, n, seconds), best_of(reach, reach.size(), seconds));
    whole += reach.size();
    kept += n;
  }
  EXPECT_LT(kept, whole * 9 / 10);
}

}  // namespace
}  // namespace forerun
