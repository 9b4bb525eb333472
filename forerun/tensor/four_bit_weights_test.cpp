// Rounded to 16 levels a group: how near the numbers are, and what the blocks of the form hold.
#include "forerun/tensor/four_bit_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace forerun {
namespace {

at::Tensor rounded(const at::Tensor& weight) { return four_bit_weights(weight)->unpacked(); }

// Sum of squares of the errors of one group whose levels divide its whole range evenly.
double error_of_whole_range(const at::Tensor& group) {
  const double low = group.min().item<double>(), high = group.max().item<double>();
  const double step = (high - low) / 15.0;
  const at::Tensor back = at::round((group - low) / step) * step + low;
  return (group - back).square().sum().item<double>();
}

TEST(FourBitWeights, NoGroupIsFartherThanEvenLevelsOverItsRange) {
  at::manual_seed(4);
  const at::Tensor weight = at::randn({40, 96}), back = rounded(weight);
  ASSERT_EQ(back.sizes(), weight.sizes());
  const at::Tensor groups = weight.view({-1, 32}), backs = back.view({-1, 32});
  double all = 0.0, even = 0.0;
  for (std::int64_t i = 0; i < groups.size(0); ++i) {
    const double error = (groups[i] - backs[i]).square().sum().item<double>();
    const double most = error_of_whole_range(groups[i]);
    EXPECT_LE(error, 1.01 * most + 1e-6) << i;  // scales are of float16
    EXPECT_LE(std::get<0>(at::_unique(backs[i])).numel(), 16);
    all += error;
    even += most;
  }
  EXPECT_LT(all, 0.95 * even);  // the least squares' line and shorter ranges are nearer
}

TEST(FourBitWeights, WhatHasSixteenLevelsStaysAsItIs) {
  const at::Tensor levels = at::arange(64).remainder(16).to(at::kFloat).view({2, 32});
  const at::Tensor weight = levels * 0.25 - 1.5;  // all of them exact in float16
  EXPECT_TRUE(at::equal(rounded(weight), weight));
  EXPECT_TRUE(at::equal(rounded(at::full({1, 32}, 0.375)), at::full({1, 32}, 0.375)));
  EXPECT_TRUE(at::equal(rounded(at::zeros({1, 32})), at::zeros({1, 32})));
}

TEST(FourBitWeights, TakeFiveBitsEach) {
  const auto matrix = four_bit_weights(at::randn({6, 64}));
  EXPECT_EQ(matrix->rows(), 6);
  EXPECT_EQ(matrix->columns(), 64);
  EXPECT_EQ(matrix->bytes(), 6 * 64 * 5 / 8);
}

TEST(FourBitWeights, AGroupWithWhatIsNoNumberIsNone) {
  for (const double bad : {std::nan(""), double{INFINITY}, -double{INFINITY}}) {
    at::Tensor weight = at::ones({1, 96});
    weight[0][40] = bad;
    const at::Tensor back = rounded(weight);
    EXPECT_TRUE(back.narrow(1, 32, 32).isnan().all().item<bool>()) << bad;
    EXPECT_TRUE(at::equal(back.narrow(1, 0, 32), at::ones({1, 32})));
    EXPECT_TRUE(at::equal(back.narrow(1, 64, 32), at::ones({1, 32})));
  }
}

}  // namespace
}  // namespace forerun
