#include "forerun/metrics/frechet.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/support/feature_sets.h"

namespace forerun {
namespace {

using testing::gaussians;

TEST(Frechet, IsScipys) {
  for (const testing::FeatureCase& c : testing::feature_cases()) {
    const FrechetReference reference(c.references);
    EXPECT_NEAR(reference.distance(c.samples), c.frechet, 1e-6 * (1.0 + c.frechet));
  }
}

TEST(Frechet, OfASetToItselfIsZero) {
  for (const std::int64_t n : {2, 5, 400}) {  // fewer images than features, and more
    const at::Tensor x = gaussians(n, 40, 3);
    EXPECT_NEAR(FrechetReference(x).distance(x), 0.0, 1e-6) << n;
  }
}

TEST(Frechet, OfAShiftIsItsSquare) {
  const at::Tensor x = gaussians(200, 6, 4);
  const at::Tensor shift = at::tensor({1.0, -2.0, 0.0, 0.5, 3.0, 0.0}, at::kDouble);
  EXPECT_NEAR(FrechetReference(x).distance(x + shift), 14.25, 1e-6);
}

// N(0, I) and N(s, 4 I) in d dimensions: |s|^2 + d (2 - 1)^2. Means and variances of 20,000 images
// are off by less than 5 / sqrt(20,000), which moves it by less than 0.5.
TEST(Frechet, OfGaussiansIsTheClosedForm) {
  const at::Tensor a = gaussians(20000, 4, 5), b = gaussians(20000, 4, 6) * 2.0 + 1.0;
  EXPECT_NEAR(FrechetReference(a).distance(b), 8.0, 0.5);
}

TEST(Frechet, IsSymmetricAndSeesNoRotation) {
  const at::Tensor a = gaussians(50, 5, 7), b = gaussians(30, 5, 8) * 1.5 + 0.3;
  const double there = FrechetReference(a).distance(b);
  EXPECT_NEAR(FrechetReference(b).distance(a), there, 1e-9);
  const auto [rotation, triangle] = at::linalg_qr(gaussians(5, 5, 9));
  EXPECT_NEAR(FrechetReference(at::matmul(a, rotation)).distance(at::matmul(b, rotation)), there,
              1e-9);
}

TEST(Frechet, OfSomeImagesIsThatOfTheirSet) {
  const at::Tensor a = gaussians(60, 12, 1), b = gaussians(9, 12, 2);
  const FrechetReference reference(a);
  const std::vector<std::int64_t> which = {3, 3, 0, 8, 5, 3};
  const at::Tensor some = b.index_select(0, at::tensor(at::ArrayRef<std::int64_t>(which)));
  EXPECT_NEAR(reference.distance(reference.prepare(b), which), reference.distance(some), 1e-8);
}

TEST(Frechet, EqualImagesAreAPoint) {
  const at::Tensor a = gaussians(500, 3, 1), same = at::zeros({10, 3});
  const double trace = (a - a.mean(0)).square().sum().item<double>() / 499.0;
  const double expected = a.mean(0).square().sum().item<double>() + trace;
  EXPECT_NEAR(FrechetReference(a).distance(same), expected, 1e-9);
  EXPECT_NEAR(FrechetReference(same).distance(a), expected, 1e-9);
  EXPECT_EQ(FrechetReference(same).distance(same), 0.0);
}

TEST(Frechet, WhatCannotBeComparedIsSaid) {
  const at::Tensor a = gaussians(10, 3, 1);
  EXPECT_THROW(FrechetReference(gaussians(1, 3, 1)), std::invalid_argument);
  EXPECT_THROW(FrechetReference(at::zeros({4})), std::invalid_argument);
  EXPECT_THROW(FrechetReference(a).distance(gaussians(1, 3, 1)), std::invalid_argument);
  EXPECT_THROW(FrechetReference(a).distance(gaussians(9, 4, 1)), std::invalid_argument);
  at::Tensor broken = a.clone();
  broken[4][1] = std::nan("");
  EXPECT_THROW(FrechetReference{broken}, std::invalid_argument);
  EXPECT_THROW(FrechetReference(a).distance(broken), std::invalid_argument);
  const std::vector<std::int64_t> one = {3};
  const FrechetReference reference(a);
  EXPECT_THROW(reference.distance(reference.prepare(a), one), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
