#include "forerun/core/rng_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "forerun/core/tests_of_fit.h"

namespace forerun {
namespace {

constexpr std::array kPurposes = {Purpose::kDraft,  Purpose::kAccept,      Purpose::kResidual,
                                  Purpose::kTarget, Purpose::kSharedNoise, Purpose::kCertificate};
constexpr std::array<std::uint32_t, 4> kPlaces = {0, 1, 2, 0xffffffffU};
constexpr std::array<std::uint32_t, 5> kIndices = {0, 1, 2, 1U << 27, (1U << 28) - 1};

// Every key of a small grid that reaches the ends of each coordinate.
bool by_target(Purpose purpose) {
  return purpose == Purpose::kTarget || purpose == Purpose::kSharedNoise;
}

template <class Visit>
void for_each_place(Visit visit) {
  for (const std::uint32_t request : kPlaces) {
    for (const std::uint32_t round : kPlaces) {
      for (const std::uint32_t position : kPlaces) {
        visit(RngKey{.seed = 5, .request = request, .round = round, .position = position});
      }
    }
  }
}

TEST(RngKey, NoTwoPlacesPurposesOrIndicesShareANumber) {
  std::vector<std::array<std::uint32_t, 4>> words;
  for_each_place([&](const RngKey& key) {
    for (const Purpose purpose : kPurposes) {
      // Numbers that the target alone uses repeat over rounds on purpose; they are counted once.
      if (by_target(purpose) && key.round != 0) continue;
      for (const std::uint32_t index : kIndices) words.push_back(key.words(purpose, index));
    }
  });
  ASSERT_EQ(words.size(), 64U * 4 * kIndices.size() + 16U * 2 * kIndices.size());
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
}

TEST(RngKey, BothHalvesOfTheSeedCount) {
  const auto of = [](std::uint64_t seed) { return RngKey{.seed = seed}.words(Purpose::kAccept); };
  EXPECT_NE(of(1), of(2));
  EXPECT_NE(of(1), of(1 + (1ULL << 32)));
  EXPECT_NE(of(1ULL << 32), of(1));
}

TEST(RngKey, OnlyWhatTheTargetDecidesIgnoresTheRound) {
  const RngKey first{.seed = 1, .request = 2, .round = 0, .position = 3};
  const RngKey later{.seed = 1, .request = 2, .round = 9, .position = 3};
  for (const Purpose purpose : kPurposes) {
    const bool same = first.words(purpose, 4) == later.words(purpose, 4);
    EXPECT_EQ(same, by_target(purpose)) << static_cast<int>(purpose);
  }
}

TEST(RngKey, UniformHas53BitsOnTheHalfOpenInterval) {
  EXPECT_EQ(RngKey::unit(0, 0), 0.0);
  EXPECT_EQ(RngKey::unit(0, 1U << 11), 0x1p-53);
  EXPECT_EQ(RngKey::unit(1U << 31, 0), 0.5);
  EXPECT_EQ(RngKey::unit(0xffffffffU, 0xffffffffU), 1.0 - 0x1p-53);
}

// Kolmogorov-Smirnov at 1e-5 for each purpose: six tests, fails by chance below 1e-4.
TEST(RngKey, UniformsAreUniformOverPositionsForEveryPurpose) {
  for (const Purpose purpose : kPurposes) {
    std::vector<double> u;
    for (std::uint32_t i = 0; i < 50000; ++i) {
      u.push_back(RngKey{.seed = 11, .position = i}.uniform(purpose));
      ASSERT_GE(u.back(), 0.0);
      ASSERT_LT(u.back(), 1.0);
    }
    EXPECT_GT(ks_uniform(u).p, 1e-5) << static_cast<int>(purpose);
    for (double& x : u) x = x * x;
    EXPECT_LT(ks_uniform(u).p, 1e-9) << "the test must reject squared uniforms";
  }
}

// Correlations within 5 standard errors: four of them, fails by chance below 3e-6.
TEST(RngKey, NeighbouringPlacesAndPurposesAreUncorrelated) {
  constexpr int kTries = 100000;
  double purposes = 0.0, positions = 0.0, rounds = 0.0, requests = 0.0;
  const auto u = [](const RngKey& d, Purpose p) { return d.uniform(p) - 0.5; };
  for (std::uint32_t i = 0; i < kTries; ++i) {
    const RngKey here{.seed = 3, .request = i, .round = i % 7, .position = i % 101};
    const double x = u(here, Purpose::kAccept);
    purposes += x * u(here, Purpose::kResidual);
    positions += x * u(RngKey{3, i, here.round, here.position + 1}, Purpose::kAccept);
    rounds += x * u(RngKey{3, i, here.round + 1, here.position}, Purpose::kAccept);
    requests += x * u(RngKey{3, i + 1, here.round, here.position}, Purpose::kAccept);
  }
  const double bound = 5.0 / 12.0 * std::sqrt(kTries);
  for (const double sum : {purposes, positions, rounds, requests}) {
    EXPECT_LT(std::abs(sum), bound);
  }
}

std::vector<float> normals(std::size_t n, std::uint32_t position = 0) {
  std::vector<float> x(n);
  RngKey{.seed = 13, .position = position}.fill_normal(Purpose::kTarget, x);
  return x;
}

// Moments within 5 standard errors and Kolmogorov-Smirnov at 1e-5: fails by chance below 2e-5.
TEST(FillNormal, FollowsTheStandardNormal) {
  const std::vector<float> x = normals(1000000);
  std::array<double, 5> moment{};
  std::vector<double> u;
  for (const float value : x) {
    double power = 1.0;
    for (double& m : moment) {
      m += power;
      power *= static_cast<double>(value);
    }
    u.push_back(normal_cdf(value));
  }
  const double n = moment[0];
  // Var of x^k is E x^2k - (E x^k)^2: 1, 2, 15, 96.
  EXPECT_NEAR(moment[1] / n, 0.0, 5.0 * std::sqrt(1.0 / n));
  EXPECT_NEAR(moment[2] / n, 1.0, 5.0 * std::sqrt(2.0 / n));
  EXPECT_NEAR(moment[3] / n, 0.0, 5.0 * std::sqrt(15.0 / n));
  EXPECT_NEAR(moment[4] / n, 3.0, 5.0 * std::sqrt(96.0 / n));
  EXPECT_GT(ks_uniform(u).p, 1e-5);
  for (std::size_t i = 0; i < x.size(); ++i) u[i] = normal_cdf(1.01 * x[i]);
  EXPECT_LT(ks_uniform(u).p, 1e-5) << "the test must see a deviation that is 1% off";
}

// 5 standard errors on 5e5 products: fails by chance below 1e-6.
TEST(FillNormal, BothHalvesOfABoxMullerPairAreIndependent) {
  const std::vector<float> x = normals(1000000);
  double products = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < x.size(); i += 2) {
    products += static_cast<double>(x[i]) * x[i + 1];
    squares += (static_cast<double>(x[i]) * x[i] - 1.0) * (x[i + 1] * x[i + 1] - 1.0);
  }
  const double pairs = 0.5 * static_cast<double>(x.size());
  EXPECT_LT(std::abs(products), 5.0 * std::sqrt(pairs));
  EXPECT_LT(std::abs(squares), 5.0 * 2.0 * std::sqrt(pairs));
}

// A pair has its radius from the first two of its words and its angle from the others: none is used
// twice, and a seed gives the same numbers in every version.
TEST(FillNormal, IsTheBoxMullerTransformOfItsWords) {
  const std::vector<float> x = normals(64);
  for (std::uint32_t i = 0; i < 32; ++i) {
    const auto w = RngKey{.seed = 13}.words(Purpose::kTarget, i);
    const double radius = std::sqrt(-2.0 * std::log1p(-RngKey::unit(w[0], w[1])));
    const double angle = 2.0 * std::numbers::pi * RngKey::unit(w[2], w[3]);
    EXPECT_FLOAT_EQ(x[2 * i], static_cast<float>(radius * std::cos(angle))) << i;
    EXPECT_FLOAT_EQ(x[2 * i + 1], static_cast<float>(radius * std::sin(angle))) << i;
  }
}

TEST(FillNormal, ALengthIsAPrefixOfAnyLongerOneAndNothingBeyondIsWritten) {
  const std::vector<float> longest = normals(64);
  for (const std::size_t n : {0U, 1U, 2U, 3U, 7U, 63U}) {
    std::vector<float> buffer(n + 1, 99.0F);
    RngKey{.seed = 13}.fill_normal(Purpose::kTarget, std::span<float>(buffer).first(n));
    EXPECT_TRUE(std::equal(buffer.begin(), buffer.end() - 1, longest.begin())) << n;
    EXPECT_EQ(buffer.back(), 99.0F) << n;
  }
  EXPECT_NE(normals(7, 1), std::vector<float>(longest.begin(), longest.begin() + 7));
}

TEST(RngKey, SubstepsShareNoNumber) {
  std::set<std::uint32_t> seen;
  for (std::uint32_t substep = 0; substep < 50; ++substep) {
    for (std::uint32_t index = 0; index < 20; ++index) {
      const RngKey key{.seed = 9, .request = 1, .position = 4, .substep = substep};
      seen.insert(key.words(Purpose::kTarget, index)[0]);
    }
  }
  EXPECT_EQ(seen.size(), 1000U);  // 32-bit words: two are alike by chance in 1 of 8,600 seeds
  const RngKey plain{.seed = 9, .request = 1, .position = 4};
  EXPECT_EQ((RngKey{.seed = 9, .request = 1, .position = 4, .substep = 0}).words(Purpose::kTarget),
            plain.words(Purpose::kTarget));
}

}  // namespace
}  // namespace forerun
