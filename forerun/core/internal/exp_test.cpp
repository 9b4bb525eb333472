#include "forerun/core/internal/exp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace forerun::internal {
namespace {

double relative_error(double x) {
  const long double exact = std::exp(static_cast<long double>(x));
  return static_cast<double>(
      std::abs((static_cast<long double>(exp_nonpositive(x)) - exact) / exact));
}

TEST(ExpNonpositive, IsWithin1e15OfTheExponentialEverywhere) {
  double worst = 0.0;
  for (int i = 0; i <= 708 * 1024; ++i) worst = std::max(worst, relative_error(-i / 1024.0));
  for (int i = 0; i <= 200000; ++i) worst = std::max(worst, relative_error(-i * 3.53e-3));
  for (double x = -1.0; x < -1e-300; x *= 0.9) worst = std::max(worst, relative_error(x));
  EXPECT_LT(worst, 1e-15);
  ::testing::Test::RecordProperty("worst_relative_error", std::to_string(worst * 1e16) + "e-16");
}

TEST(ExpNonpositive, IsExactAtZeroAndZeroBelowMinus708) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(exp_nonpositive(0.0), 1.0);
  EXPECT_EQ(exp_nonpositive(-0.0), 1.0);
  EXPECT_GT(exp_nonpositive(-708.0), 0.0);
  EXPECT_EQ(exp_nonpositive(std::nextafter(-708.0, -kInf)), 0.0);
  EXPECT_EQ(exp_nonpositive(-709.0), 0.0);
  EXPECT_EQ(exp_nonpositive(-1e300), 0.0);
  EXPECT_EQ(exp_nonpositive(-kInf), 0.0);
}

TEST(ExpNonpositive, InFloat32IsWithin3e7OfTheExponential) {
  double worst = 0.0;
  for (int i = 0; i <= 87 * 4096; ++i) {
    const float x = static_cast<float>(-i) / 4096.0F;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp_nonpositive(x)) - exact) / exact);
  }
  EXPECT_LT(worst, 3e-7);
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  EXPECT_GT(exp_nonpositive(-87.0F), 0.0F);
  EXPECT_EQ(exp_nonpositive(-87.1F), 0.0F);
  EXPECT_EQ(exp_nonpositive(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isnan(exp_nonpositive(std::numeric_limits<float>::quiet_NaN())));
}

TEST(ExpNonpositive, PassesNanOn) {
  EXPECT_TRUE(std::isnan(exp_nonpositive(std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace forerun::internal
