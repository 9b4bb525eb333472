#include "forerun/metrics/neighbours.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/support/feature_sets.h"

namespace forerun {
namespace {

using testing::gaussians;

Resampling one_class(std::int64_t n, std::uint64_t seed = 0) {
  return {std::vector<std::int64_t>(static_cast<std::size_t>(n), 0), seed};
}

NearestBalls::Result compared(const at::Tensor& references, const at::Tensor& samples,
                              std::uint32_t halves = 0) {
  return NearestBalls(references).compare(samples, one_class(samples.size(0)), halves);
}

TEST(NearestBalls, GiveNumpysPrecisionAndRecall) {
  for (const testing::FeatureCase& c : testing::feature_cases()) {
    const NearestBalls::Result r = compared(c.references, c.samples);
    EXPECT_DOUBLE_EQ(share_of(r.precise), c.precision);
    EXPECT_DOUBLE_EQ(share_of(r.recalled), c.recall);
  }
}

TEST(NearestBalls, OfASetToItselfHoldAll) {
  const at::Tensor x = gaussians(700, 5, 1);  // more than a block
  const NearestBalls::Result r = compared(x, x);
  EXPECT_EQ(share_of(r.precise), 1.0);
  EXPECT_EQ(share_of(r.recalled), 1.0);
}

TEST(NearestBalls, FarSetsHoldNothingAndPartsLackRecall) {
  const at::Tensor x = gaussians(600, 3, 1);
  const NearestBalls::Result far = compared(x, x + 100.0);
  EXPECT_EQ(share_of(far.precise), 0.0);
  EXPECT_EQ(share_of(far.recalled), 0.0);
  // Samples of one half of the space: as precise as the references, but half of them are missed.
  at::Tensor half = gaussians(600, 3, 2);
  half.select(1, 0).abs_();
  const NearestBalls::Result part = compared(x, half);
  EXPECT_GT(share_of(part.precise), 0.9);
  EXPECT_LT(share_of(part.recalled), 0.75);
}

TEST(NearestBalls, EqualImagesAreInEachOthersBalls) {
  const at::Tensor same = at::full({10, 4}, 0.1, at::kDouble);
  const NearestBalls::Result r = compared(same, same);
  EXPECT_EQ(share_of(r.precise), 1.0);
  EXPECT_EQ(share_of(r.recalled), 1.0);
  EXPECT_EQ(share_of(compared(same, same + 1e-9).precise), 0.0);
}

// Half sets lack as many images as whole ones vary by. The spread of recall over 40 sets drawn
// anew, against what the halves of one say: both have a relative error of 0.12.
TEST(NearestBalls, HalvesVaryAsSetsDrawnAnewDo) {
  const NearestBalls balls(gaussians(400, 6, 1));
  std::vector<double> anew, halves;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const NearestBalls::Result r = balls.compare(gaussians(200, 6, 100 + seed), one_class(200), 40);
    anew.push_back(share_of(r.recalled));
    halves.push_back(deviation(r.recalls_of_halves));
  }
  double mean = 0.0;
  for (const double h : halves) mean += h / 40.0;
  EXPECT_GT(mean, 0.5 * deviation(anew));
  EXPECT_LT(mean, 2.0 * deviation(anew));
}

TEST(NearestBalls, TooFewImagesAreSaid) {
  const at::Tensor x = gaussians(10, 3, 1);
  EXPECT_THROW(NearestBalls(gaussians(3, 3, 1)), std::invalid_argument);
  EXPECT_THROW(compared(x, gaussians(3, 3, 1)), std::invalid_argument);
  EXPECT_THROW(compared(x, gaussians(5, 4, 1)), std::invalid_argument);
  EXPECT_THROW(compared(x, at::full({5, 3}, std::nan(""))), std::invalid_argument);
  EXPECT_NO_THROW(compared(x, gaussians(4, 3, 1), 3));
}

}  // namespace
}  // namespace forerun
