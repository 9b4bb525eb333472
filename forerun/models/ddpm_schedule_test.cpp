#include "forerun/models/ddpm_schedule.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "forerun/formats/safetensors.h"

namespace forerun {
namespace {

class DdpmValues : public ::testing::TestWithParam<int> {
 protected:
  const Safetensors file =
      load_safetensors(FORERUN_SOURCE_DIR "/tests/data/dit/sampler.safetensors");

  template <class T>
  std::vector<T> values(const std::string& name) const {
    const TensorView* t = file.find(name);
    if (t == nullptr) throw std::out_of_range(name);
    std::vector<T> out(t->bytes.size() / sizeof(T));
    std::memcpy(out.data(), t->bytes.data(), t->bytes.size());
    return out;
  }
};

TEST_P(DdpmValues, TablesAreThoseOfTheDefinition) {
  const std::int64_t steps = GetParam();
  const DdpmSchedule schedule({.steps = steps});
  const auto table = [&](const char* name) {
    return values<double>(std::string(name) + "_" + std::to_string(steps));
  };
  const auto betas = table("betas"), bars = table("alphas_cumprod"), c1 = table("c1"),
             c2 = table("c2"), variance = table("posterior_variance"), kappa = table("kappa");
  const auto times = values<std::int64_t>("timesteps_" + std::to_string(steps));
  ASSERT_EQ(schedule.steps(), steps);
  for (std::int64_t k = 0; k < steps; ++k) {
    const DdpmStep& s = schedule.step(k);
    const auto i = static_cast<std::size_t>(steps - 1 - k);
    EXPECT_EQ(s.time, times[i]);
    EXPECT_NEAR(s.beta, betas[i], 1e-12);
    EXPECT_NEAR(s.alpha_bar, bars[i], 1e-12);
    EXPECT_NEAR(s.sigma * s.sigma, variance[i], 1e-12);
    EXPECT_NEAR(s.posterior_x0, c1[i], 1e-10);
    EXPECT_NEAR(s.posterior_x, c2[i], 1e-10);
    // The mean from the noise is the mean from the image.
    EXPECT_NEAR(s.mean_x, s.posterior_x0 * s.x0_x + s.posterior_x, 1e-9);
    EXPECT_NEAR(s.mean_noise, s.posterior_x0 * s.x0_noise, 1e-9);
    if (i == 0) {
      EXPECT_EQ(s.sigma, 0.0);
      EXPECT_TRUE(std::isinf(s.kappa));
    } else {
      EXPECT_NEAR(s.kappa / kappa[i], 1.0, 1e-9);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, DdpmValues, ::testing::Values(10, 50, 250, 1000));

using DdpmTrajectory = DdpmValues;

TEST_P(DdpmTrajectory, OfAKnownNoiseIsTheReferences) {
  const DdpmSchedule schedule({.steps = GetParam()});
  const auto noise = values<float>("toy_noise");
  const auto states = values<double>("toy_states");
  const std::size_t n = noise.size() / 20;
  std::vector<float> x(states.begin(), states.begin() + static_cast<std::ptrdiff_t>(n)), eps(n);
  for (std::int64_t k = 0; k < 20; ++k) {
    const DdpmStep& s = schedule.step(k);
    const double a = static_cast<double>(s.time) / 999.0;
    for (std::size_t i = 0; i < n; ++i) {
      eps[i] = static_cast<float>(a * x[i] + (1.0 - a) * std::tanh(static_cast<double>(x[i])));
    }
    ddpm_mean(s, x, eps, x);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] += static_cast<float>(s.sigma) * noise[static_cast<std::size_t>(k) * n + i];
      EXPECT_NEAR(x[i], states[static_cast<std::size_t>(k + 1) * n + i], 1e-5) << "step " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, DdpmTrajectory, ::testing::Values(20));

TEST(DdpmSchedule, VariancesShareTheMean) {
  const DdpmSchedule small({.steps = 100}), large({.steps = 100, .variance_share = 1.0}),
      middle({.steps = 100, .variance_share = 0.5});
  for (std::int64_t k = 0; k + 1 < 100; ++k) {
    EXPECT_EQ(small.step(k).mean_x, large.step(k).mean_x);
    EXPECT_EQ(small.step(k).mean_noise, large.step(k).mean_noise);
    EXPECT_NEAR(large.step(k).sigma, std::sqrt(large.step(k).beta), 1e-12);
    EXPECT_NEAR(middle.step(k).sigma, std::sqrt(small.step(k).sigma * large.step(k).sigma), 1e-12);
    EXPECT_LT(large.step(k).kappa, small.step(k).kappa);
  }
  EXPECT_EQ(large.step(99).sigma, 0.0);
}

// The marginals of the schedule do not depend on eta: variances add up to that of the next time.
TEST(DdpmSchedule, EtaLeavesTheMarginalsAsTheyAre) {
  for (const double eta : {0.3, 0.7, 1.0, 1.02}) {
    const DdpmSchedule schedule({.steps = 250, .eta = eta});
    double kappa_ratio = 0.0;
    for (std::int64_t k = 0; k + 1 < 250; ++k) {
      const DdpmStep &s = schedule.step(k), &next = schedule.step(k + 1);
      // x = sqrt(bar) image + sqrt(1 - bar) eps, eps known.
      EXPECT_NEAR(s.mean_x * std::sqrt(s.alpha_bar), std::sqrt(next.alpha_bar), 1e-9);
      const double noise = s.mean_x * std::sqrt(1.0 - s.alpha_bar) + s.mean_noise;
      EXPECT_NEAR(noise * noise + s.sigma * s.sigma, 1.0 - next.alpha_bar, 1e-9);
      kappa_ratio = s.kappa / DdpmSchedule({.steps = 250}).step(k).kappa;
    }
    if (eta < 1.0) {
      EXPECT_GT(kappa_ratio, 1.0);
    }
  }
}

TEST(DdpmSchedule, OutOfRangeIsRefused) {
  for (const std::int64_t steps : {-1, 0, 1001}) {
    EXPECT_THROW(DdpmSchedule({.steps = steps}), std::invalid_argument);
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(DdpmSchedule({.eta = 0.0}), std::invalid_argument);
  EXPECT_THROW(DdpmSchedule({.eta = nan}), std::invalid_argument);
  EXPECT_THROW(DdpmSchedule({.eta = 1.9}), std::invalid_argument);
  EXPECT_THROW(DdpmSchedule({.variance_share = nan}), std::invalid_argument);
  EXPECT_THROW(DdpmSchedule({.variance_share = 0.5, .eta = 0.5}), std::invalid_argument);
  EXPECT_EQ(DdpmSchedule({.steps = 1}).step(0).sigma, 0.0);
}

}  // namespace
}  // namespace forerun
