// Which experts rows use: by their scores, by corrected ones, and of likely groups alone.
#include "forerun/models/internal/expert_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace forerun::internal {
namespace {

using Numbers = std::vector<float>;
using Places = std::vector<std::int32_t>;

struct Choice {
  Places chosen;
  Numbers shares;
};

BlockConfig of_experts(std::int64_t experts, std::int64_t used) {
  BlockConfig c;
  c.experts = experts;
  c.experts_used = used;
  return c;
}

BlockConfig of_sigmoids(std::int64_t experts, std::int64_t used) {
  BlockConfig c = of_experts(experts, used);
  c.routing.sigmoid = c.routing.corrected = true;
  return c;
}

Choice choose(const BlockConfig& c, Numbers logits, const Numbers& correction = {}) {
  ExpertChoice choice(c);
  choice.start(1);
  const auto used = static_cast<std::size_t>(c.experts_used);
  Choice out{Places(used), Numbers(used)};
  choice.choose(0, logits, correction, out.chosen, out.shares);
  return out;
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

TEST(ExpertChoice, SharesAreProbabilitiesOfTheSoftmax) {
  BlockConfig c = of_experts(4, 2);
  const Numbers logits = {std::log(1.0F), std::log(4.0F), std::log(2.0F), std::log(3.0F)};
  Choice got = choose(c, logits);
  EXPECT_EQ(got.chosen, (Places{1, 3}));
  EXPECT_NEAR(got.shares[0], 0.4, 1e-6);
  EXPECT_NEAR(got.shares[1], 0.3, 1e-6);
  c.norm_topk_prob = true;
  c.routing.scale = 3.0;
  got = choose(c, logits);
  EXPECT_NEAR(got.shares[0], 3.0 * 4.0 / 7.0, 1e-6);
  EXPECT_NEAR(got.shares[1], 3.0 * 3.0 / 7.0, 1e-6);
}

TEST(ExpertChoice, OfEqualScoresTheFirstAreUsed) {
  EXPECT_EQ(choose(of_experts(5, 3), {1, 2, 1, 2, 1}).chosen, (Places{1, 3, 0}));
  EXPECT_EQ(choose(of_sigmoids(5, 3), {1, 2, 1, 2, 1}, Numbers(5)).chosen, (Places{1, 3, 0}));
  EXPECT_EQ(choose(of_experts(4, 4), Numbers(4)).chosen, (Places{0, 1, 2, 3}));
}

TEST(ExpertChoice, CorrectionsChooseAndDoNotWeigh) {
  BlockConfig c = of_sigmoids(3, 2);
  Choice got = choose(c, {0.0F, 1.0F, 2.0F}, {0.5F, 0.0F, -0.5F});
  EXPECT_EQ(got.chosen, (Places{0, 1}));  // 1.0, 0.731, 0.381
  EXPECT_FLOAT_EQ(got.shares[0], 0.5F);
  EXPECT_FLOAT_EQ(got.shares[1], sigmoid(1.0F));
  c.norm_topk_prob = true;
  got = choose(c, {0.0F, 1.0F, 2.0F}, {0.5F, 0.0F, -0.5F});
  EXPECT_FLOAT_EQ(got.shares[0], 0.5F / (0.5F + sigmoid(1.0F)));
  got = choose(c, Numbers(3, -200.0F), Numbers(3));  // sigmoids that are zero
  EXPECT_EQ(got.shares, (Numbers{0.0F, 0.0F}));
}

// The second group has the largest expert, the first and the third have the largest pairs.
TEST(ExpertChoice, IsAmongGroupsOfTheLargestPairs) {
  BlockConfig c = of_sigmoids(9, 3);
  c.routing.groups = 3;
  c.routing.groups_used = 2;
  const Numbers logits = {1, 1, -9, 3, -9, -9, -9, 2, 0};
  EXPECT_EQ(choose(c, logits, Numbers(9)).chosen, (Places{7, 0, 1}));
  c.routing.groups_used = 3;
  EXPECT_EQ(choose(c, logits, Numbers(9)).chosen, (Places{3, 7, 0}));
  Numbers correction(9);
  correction[4] = 1.0F;
  c.routing.groups_used = 1;
  EXPECT_EQ(choose(c, logits, correction).chosen, (Places{4, 3, 5}));
}

TEST(ExpertChoice, OfEqualGroupsTheFirstAreUsed) {
  BlockConfig c = of_sigmoids(8, 2);
  c.routing.groups = 4;
  c.routing.groups_used = 1;
  EXPECT_EQ(choose(c, Numbers(8, 1.0F), Numbers(8)).chosen, (Places{0, 1}));
  EXPECT_EQ(choose(c, {0, 0, 1, 2, 0, 0, 2, 1}, Numbers(8)).chosen, (Places{3, 2}));
}

// Places index memory: they are different ones and within the range for any numbers.
TEST(ExpertChoice, OfNumbersThatAreNoneIsWithinTheRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = HUGE_VALF;
  BlockConfig grouped = of_sigmoids(6, 4);
  grouped.routing.groups = 3;
  grouped.routing.groups_used = 2;
  for (const BlockConfig& c : {of_experts(6, 4), of_sigmoids(6, 4), grouped}) {
    const Numbers none(c.routing.corrected ? 6 : 0);
    for (const Numbers& logits :
         {Numbers(6, nan), Numbers{1, nan, 2, nan, nan, 3}, Numbers(6, -inf), Numbers(6, inf),
          Numbers{inf, -inf, nan, 0, inf, -inf}}) {
      for (const float more : {0.0F, nan, -inf}) {
        Numbers correction = none;
        if (!correction.empty()) correction[2] = more;
        Places chosen = choose(c, logits, correction).chosen;
        std::sort(chosen.begin(), chosen.end());
        EXPECT_EQ(std::adjacent_find(chosen.begin(), chosen.end()), chosen.end());
        EXPECT_GE(chosen.front(), 0);
        EXPECT_LT(chosen.back(), 6);
      }
    }
  }
}

TEST(ExpertChoice, OfARowDoesNotDependOnOthers) {
  BlockConfig c = of_sigmoids(12, 3);
  c.routing.groups = 4;
  c.routing.groups_used = 2;
  c.norm_topk_prob = true;
  std::mt19937 random{3};
  std::normal_distribution<float> normal;
  Numbers correction(12);
  for (float& x : correction) x = 0.2F * normal(random);
  ExpertChoice together(c);
  together.start(50);
  for (std::int64_t row = 49; row >= 0; --row) {
    Numbers logits(12);
    for (float& x : logits) x = normal(random);
    const Choice alone = choose(c, logits, correction);
    Choice got{Places(3), Numbers(3)};
    together.choose(row, logits, correction, got.chosen, got.shares);
    EXPECT_EQ(got.chosen, alone.chosen);
    EXPECT_EQ(got.shares, alone.shares);
  }
}

}  // namespace
}  // namespace forerun::internal
