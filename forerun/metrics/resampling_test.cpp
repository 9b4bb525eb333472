#include "forerun/metrics/resampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace forerun {
namespace {

const std::vector<std::int64_t> kClasses = {0, 1, 0, 1, 2, 0, 0, 1};

TEST(Resampling, KeepsTheSizesOfStrata) {
  const Resampling r(kClasses, 7);
  for (std::uint32_t replicate = 0; replicate < 50; ++replicate) {
    const auto drawn = r.bootstrap(replicate);
    const auto half = r.half(replicate);
    std::vector<int> in(3);
    for (std::size_t i = 0; i < kClasses.size(); ++i) {
      EXPECT_EQ(kClasses[static_cast<std::size_t>(drawn[i])], kClasses[i]);
      in[static_cast<std::size_t>(kClasses[i])] += half[i] ? 1 : 0;
    }
    EXPECT_EQ(in[0], 2);
    EXPECT_TRUE(in[1] == 1 || in[1] == 2);
    EXPECT_LE(in[2], 1);
  }
}

TEST(Resampling, DependsOnSeedAndReplicateAlone) {
  EXPECT_EQ(Resampling(kClasses, 7).bootstrap(3), Resampling(kClasses, 7).bootstrap(3));
  EXPECT_NE(Resampling(kClasses, 7).bootstrap(3), Resampling(kClasses, 8).bootstrap(3));
  EXPECT_NE(Resampling(kClasses, 7).bootstrap(3), Resampling(kClasses, 7).bootstrap(4));
  EXPECT_THROW(Resampling({}, 7), std::invalid_argument);
}

// Over 4,000 replicates each image comes up once on average, and is in half of the halves; bounds
// are five standard deviations.
TEST(Resampling, TakesEveryImageEquallyOften) {
  const Resampling r(kClasses, 1);
  constexpr int kTrials = 4000;
  std::vector<double> drawn(kClasses.size()), halves(kClasses.size());
  for (std::uint32_t replicate = 0; replicate < kTrials; ++replicate) {
    for (const std::int64_t i : r.bootstrap(replicate)) drawn[static_cast<std::size_t>(i)] += 1.0;
    const auto half = r.half(replicate);
    for (std::size_t i = 0; i < half.size(); ++i) halves[i] += half[i] ? 1.0 : 0.0;
  }
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    EXPECT_NEAR(drawn[i], kTrials, 5.0 * std::sqrt(double{kTrials})) << i;
    EXPECT_NEAR(halves[i], kTrials / 2, 5.0 * std::sqrt(kTrials / 4.0)) << i;
  }
}

// The bootstrap of a share has the binomial's standard error; of 1,000 replicates to within 10 %
// (five standard deviations are 11 %).
TEST(Resampling, GivesTheErrorOfAShare) {
  std::vector<bool> hit(400);
  for (std::size_t i = 0; i < hit.size(); ++i) hit[i] = i % 4 == 0;
  const Resampling r(std::vector<std::int64_t>(400, 0), 2);
  EXPECT_EQ(share_of(hit), 0.25);
  const double expected = std::sqrt(0.25 * 0.75 / 400.0);
  EXPECT_NEAR(deviation(shares_of(hit, r, 1000)), expected, 0.12 * expected);
  // Shares that differ by stratum alone do not vary.
  std::vector<std::int64_t> strata(400);
  for (std::size_t i = 0; i < hit.size(); ++i) strata[i] = i % 4 == 0 ? 1 : 0;
  EXPECT_EQ(deviation(shares_of(hit, Resampling(strata, 2), 100)), 0.0);
  EXPECT_THROW(shares_of({true}, r, 10), std::invalid_argument);
  EXPECT_EQ(share_of({}), 0.0);
}

}  // namespace
}  // namespace forerun
