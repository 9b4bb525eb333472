#include "forerun/methods/tree/merge_children.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace forerun {
namespace {

TEST(MergeChildren, KeepsTheLikeliestOfEachTokenAndTheNextEstimate) {
  std::mt19937 random(3);
  Agreement agreement;
  for (int i = 0; i < 100; ++i) agreement.observe(0.4, 0.3, true);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<TreeChild> children;
    std::map<Token, std::vector<double>> of;
    for (std::size_t n = random() % 40; children.size() < n;) {
      const double p = static_cast<double>(random() % 9) / 10.0;  // some are equal
      children.push_back({.token = static_cast<Token>(random() % 12),
                          .probability = p,
                          .source = static_cast<std::uint8_t>(children.size())});
      of[children.back().token].push_back(p);
    }
    const std::vector<TreeChild> merged = merge_children(children, agreement);
    ASSERT_EQ(merged.size(), of.size());
    for (const TreeChild& child : merged) {
      std::vector<double>& all = of.at(child.token);
      const auto best = std::find_if(children.begin(), children.end(), [&](const TreeChild& c) {
        return c.token == child.token && c.probability == *std::max_element(all.begin(), all.end());
      });
      EXPECT_EQ(child.source, best->source);
      std::sort(all.rbegin(), all.rend());
      EXPECT_EQ(child.first, all[0]);
      EXPECT_EQ(child.second, all.size() > 1 ? all[1] : 0.0);
      EXPECT_EQ(child.probability, agreement.probability(child.first, child.second));
    }
  }
}

}  // namespace
}  // namespace forerun
