#include "forerun/core/agreement.h"

#include <gtest/gtest.h>

#include <random>

namespace forerun {
namespace {

// Of tokens that both name 70% are right, of tokens that one names 30%; both say 40% and 30%
// always.
TEST(Agreement, LearnsWhatItIsWorth) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  Agreement agreement;
  EXPECT_DOUBLE_EQ(agreement.probability(0.4, 0.3), 0.4);  // nothing known
  for (int i = 0; i < 4000; ++i) {
    agreement.observe(0.4, 0.3, uniform(random) < 0.7);
    agreement.observe(0.4, 0.0, uniform(random) < 0.3);
  }
  // The memory holds at least 256 expected hits: 640 observations, 5 sigma 0.09.
  EXPECT_NEAR(agreement.probability(0.4, 0.3), 0.7, 0.1);
  EXPECT_NEAR(agreement.probability(0.4, 0.0), 0.3, 0.1);
  EXPECT_DOUBLE_EQ(agreement.probability(0.9, 0.0), 0.9);  // another cell
}

TEST(Agreement, StaysAProbability) {
  Agreement agreement;
  for (int i = 0; i < 1000; ++i) agreement.observe(0.1, 0.05, true);
  EXPECT_LT(agreement.probability(0.14, 0.05), 1.0);
  for (int i = 0; i < 1000; ++i) agreement.observe(0.99, 0.9, false);
  EXPECT_GE(agreement.probability(0.99, 0.9), 0.0);
  EXPECT_LT(agreement.probability(0.99, 0.9), 0.05);
}

}  // namespace
}  // namespace forerun
