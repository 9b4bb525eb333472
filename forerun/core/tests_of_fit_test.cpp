#include "forerun/core/tests_of_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "forerun/core/rng_key.h"

namespace forerun {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNoStatistic = std::numeric_limits<double>::quiet_NaN();

// Reference values of this file: SciPy 1.17.1.

void expect_relative(double got, double expected, double tolerance = 1e-6) {
  EXPECT_NEAR(got, expected, tolerance * expected);
}

TEST(NormalCdf, AgreesWithScipy) {
  expect_relative(normal_cdf(-8.0), 6.22096057427174e-16, 1e-12);
  expect_relative(normal_cdf(-3.0), 0.0013498980316300933, 1e-12);
  expect_relative(normal_cdf(-1.0), 0.15865525393145707, 1e-14);
  expect_relative(normal_cdf(0.0), 0.5, 1e-15);
  expect_relative(normal_cdf(0.5), 0.6914624612740131, 1e-14);
  expect_relative(normal_cdf(6.0), 0.9999999990134123, 1e-14);
  EXPECT_EQ(normal_cdf(-kInf), 0.0);
  EXPECT_EQ(normal_cdf(kInf), 1.0);
}

TEST(ChiSquareTail, AgreesWithScipy) {
  expect_relative(chi_square_tail(0.1, 1), 0.7518296340458492);
  expect_relative(chi_square_tail(1.0, 1), 0.31731050786291115);
  expect_relative(chi_square_tail(3.84, 1), 0.05004352124870519);
  expect_relative(chi_square_tail(30.0, 1), 4.3204630578274955e-08);
  expect_relative(chi_square_tail(5.0, 5), 0.4158801869955079);
  expect_relative(chi_square_tail(0.001, 5), 0.9999999983185123, 1e-12);
  expect_relative(chi_square_tail(20.0, 5), 0.0012497305630313773);
  expect_relative(chi_square_tail(100.0, 80), 0.064570368921133);
  expect_relative(chi_square_tail(80.0, 80), 0.47897113893894483);
  expect_relative(chi_square_tail(200.0, 80), 2.9602566998131964e-12);
  expect_relative(chi_square_tail(1e4, 1e4), 0.49811936596618267);
  expect_relative(chi_square_tail(1.05e4, 1e4), 0.00024794736798936033);
  expect_relative(chi_square_tail(9.5e3, 1e4), 0.9998356138356412);
  expect_relative(chi_square_tail(1.002e6, 1e6), 0.07871866138612969);
  expect_relative(chi_square_tail(1e6, 1e6), 0.4998119368033945);
  expect_relative(chi_square_tail(25024999.999999996, 2.5e7), 0.00020431209495922137);
}

TEST(ChiSquareTail, IsOneAtZeroAndZeroAtInfinityOrForNan) {
  EXPECT_EQ(chi_square_tail(0.0, 3), 1.0);
  EXPECT_EQ(chi_square_tail(-1.0, 3), 1.0);
  EXPECT_EQ(chi_square_tail(kInf, 3), 0.0);
  EXPECT_EQ(chi_square_tail(kInf, 1e6), 0.0);
  EXPECT_EQ(chi_square_tail(1e300, 3), 0.0);
  EXPECT_EQ(chi_square_tail(kNoStatistic, 3), 0.0)
      << "a broken statistic is no evidence of a good fit";
}

// Statistics are those of scipy.stats.kstest; p-values are scipy.stats.kstwobign.sf (the limit law)
// at Stephens' argument (sqrt n + 0.12 + 0.11 / sqrt n) D. Their distance to the exact p-values
// (0.7487, 2.843e-4, 0.8791) is that of the approximation.
TEST(KsUniform, AgreesWithScipyAtStephensArgument) {
  const KsResult ten = ks_uniform({0.97, 0.02, 0.11, 0.13, 0.4, 0.41, 0.58, 0.77, 0.9, 0.91});
  expect_relative(ten.statistic, 0.2, 1e-12);
  expect_relative(ten.p, 0.7709529446765865);
  std::vector<double> v;
  for (int i = 0; i < 100; ++i) v.push_back(i / 100.0 * 0.8);
  expect_relative(ks_uniform(v).statistic, 0.208, 1e-12);
  expect_relative(ks_uniform(v).p, 0.0002780134437998205);
  v.clear();
  for (int i = 0; i < 1000; ++i) v.push_back(std::pow((i + 0.5) / 1000.0, 1.05));
  expect_relative(ks_uniform(v).statistic, 0.01844710816632661, 1e-12);
  expect_relative(ks_uniform(v).p, 0.8827231899008174);
  expect_relative(ks_uniform({0.3}).statistic, 0.7, 1e-12);
  expect_relative(ks_uniform({0.3}).p, 0.44876338741033567);
}

TEST(KsUniform, NoValuesAreNoEvidenceAndValuesThatAreNoNumbersAreDamning) {
  EXPECT_EQ(ks_uniform({}).p, 1.0);
  std::vector<double> grid;
  for (int i = 0; i < 1000; ++i) grid.push_back((i + 0.5) / 1000.0);
  EXPECT_EQ(ks_uniform(grid).p, 1.0);
  for (const std::size_t at : {0U, 500U, 999U}) {
    std::vector<double> broken = grid;
    broken[at] = kNoStatistic;
    EXPECT_EQ(ks_uniform(broken).p, 0.0) << at;
  }
  EXPECT_LT(ks_uniform(std::vector<double>(100, 1.0)).p, 1e-12);
  EXPECT_LT(ks_uniform(std::vector<double>(100, 0.0)).p, 1e-12);
}

TEST(KsUniformCounts, AgreesWithTheTestOfTheValues) {
  std::vector<double> values;
  std::vector<std::uint32_t> cells(1 << 16, 0);
  for (int i = 0; i < 500; ++i) {
    values.push_back(std::fmod(i * 0.6180339887 + 0.05 * i * i, 1.0));
    ++cells[static_cast<std::size_t>(values.back() * (1 << 16))];
  }
  EXPECT_NEAR(ks_uniform_counts(cells).statistic, ks_uniform(values).statistic, 1.0 / (1 << 15));
  EXPECT_EQ(ks_uniform_counts({}).p, 1.0);
  EXPECT_EQ(ks_uniform_counts(std::vector<std::uint32_t>(8, 0)).p, 1.0);
  std::vector<std::uint32_t> heap(1 << 16, 0);
  heap[7] = 100;
  EXPECT_LT(ks_uniform_counts(heap).p, 1e-9);
}

TEST(ChiSquareP, AgreesWithScipy) {
  const std::vector<double> p = {0.1, 0.2, 0.3, 0.4};
  expect_relative(chi_square_p(p, std::vector<std::size_t>{14, 18, 33, 35}), 0.43599551111021617);
}

TEST(ChiSquareP, PoolsThinCellsAndForbidsEmptyOnes) {
  // 100 counts; cells of 3 and 4 are pooled to one of 7: (7 - 7)^2 + (1 / 93) at 1 degree.
  const std::vector<double> thin = {0.93, 0.03, 0.04};
  const std::vector<std::size_t> counts = {92, 8, 0};
  expect_relative(chi_square_p(thin, counts), chi_square_tail(1.0 / 93.0 + 1.0 / 7.0, 1));
  const std::vector<double> with_zero = {0.5, 0.5, 0.0};
  EXPECT_EQ(chi_square_p(with_zero, std::vector<std::size_t>{50, 49, 1}), 0.0);
  EXPECT_GT(chi_square_p(with_zero, std::vector<std::size_t>{50, 50, 0}), 0.9);
  EXPECT_EQ(chi_square_p(with_zero, std::vector<std::size_t>{0, 0, 0}), 1.0);
}

// A cell expecting 0.01 counts has one in a hundred runs: no reason to reject at 1e-5. Twice the
// Poisson tail 1 - e^-0.01, by hand.
TEST(ChiSquareP, OneCountInAnUnlikelyCellIsNotDamningAndManyAre) {
  const std::vector<double> p = {0.5, 0.4999, 0.0001};
  expect_relative(chi_square_p(p, std::vector<std::size_t>{50, 49, 1}), 2.0 * -std::expm1(-0.01));
  EXPECT_LT(chi_square_p(p, std::vector<std::size_t>{48, 47, 5}), 1e-9);
  EXPECT_LT(chi_square_p(p, std::vector<std::size_t>{0, 0, 100}), 1e-9);
  EXPECT_GT(chi_square_p(p, std::vector<std::size_t>{50, 50, 0}), 0.5);
  EXPECT_LT(chi_square_p(std::vector{1.0 - 1e-30, 1e-30}, std::vector<std::size_t>{0, 100}), 1e-9);
}

// KS over 2,000 p-values of exact samples at 1e-5.
TEST(ChiSquareP, IsUniformForHonestCounts) {
  const std::vector<double> p = {0.5, 0.3, 0.15, 0.05};
  std::vector<double> p_values;
  for (std::uint32_t run = 0; run < 2000; ++run) {
    std::vector<std::size_t> counts(4, 0);
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const double u = RngKey{.seed = 2, .request = run, .position = i}.uniform(Purpose::kTarget);
      ++counts[u < 0.5 ? 0 : u < 0.8 ? 1 : u < 0.95 ? 2 : 3];
    }
    p_values.push_back(chi_square_p(p, counts));
  }
  EXPECT_GT(ks_uniform(p_values).p, 1e-5);
}

}  // namespace
}  // namespace forerun
