#include "forerun/models/mar/mar_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "forerun/formats/safetensors.h"
#include "forerun/formats/whole_numbers.h"
#include "tests/support/float64_values.h"

namespace forerun {
namespace {

MarConfig config_with(MarPrediction prediction) {
  MarConfig c;
  c.prediction = prediction;
  c.calibration = {.times = {0, 999}, .errors = {0.01, 0.02}};
  return c;
}

TEST(MarSchedule, TablesAreTheReferencesTo1e12) {
  const Safetensors file = load_safetensors(std::filesystem::path(FORERUN_SOURCE_DIR) /
                                            "tests/data/mar/schedule.safetensors");
  for (const std::int64_t steps : {10, 25, 100}) {
    const auto values = [&](const char* name) {
      return doubles_of(file, fmt::format("{}_{}", name, steps));
    };
    const auto bars = values("alpha_bar"), betas = values("beta"), posteriors = values("posterior"),
               c1 = values("c1"), c2 = values("c2");
    const MarSchedule all(
        config_with(MarPrediction::kVelocity),
        {.steps = steps, .variance = MarVariance::kPosterior, .final_step = MarFinalStep::kNoisy});
    ASSERT_EQ(all.transitions(), steps);
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); };
    for (std::int64_t k = 0; k < steps; ++k) {
      const auto i = static_cast<std::size_t>(steps - 1 - k);
      const MarStep& s = all.step(k);
      EXPECT_TRUE(near(s.alpha_bar, bars[i])) << k;
      EXPECT_TRUE(near(s.beta, betas[i])) << k;
      EXPECT_TRUE(near(s.posterior_x0, c1[i])) << k;
      EXPECT_TRUE(near(s.posterior_x, c2[i]) || c2[i] == 0.0) << k;
      EXPECT_TRUE(near(s.sigma * s.sigma, i == 0 ? posteriors[1] : posteriors[i])) << k;
    }
  }
}

TEST(MarSchedule, ValuesAreThePublishedOnes) {
  const MarSchedule s(config_with(MarPrediction::kNoise),
                      {.steps = 100,
                       .variance = MarVariance::kLearned,
                       .final_step = MarFinalStep::kDeterministic});
  EXPECT_EQ(mar_times(100)[6], 61);
  EXPECT_EQ(mar_times(100)[99], 999);
  EXPECT_NEAR(1.0 - s.step(99).alpha_bar, 4.13e-5, 1e-7);
  EXPECT_NEAR(s.step(0).alpha_bar, 2.4e-9, 1e-10);
  EXPECT_NEAR(std::exp(0.5 * s.step(98).log_posterior), 0.0062, 1e-4);
  EXPECT_NEAR(std::exp(0.5 * s.step(98).log_beta), 0.026, 1e-3);
  EXPECT_EQ(s.step(99).sigma, 0.0);
}

TEST(MarSchedule, CalibratedVarianceAddsThatOfTheMean) {
  const MarConfig c = config_with(MarPrediction::kVelocity);
  const auto sigma = [&](MarVariance v, std::int64_t k) {
    return MarSchedule(c, {.steps = 25, .variance = v}).step(k).sigma;
  };
  for (const std::int64_t k : {0, 12, 23}) {
    const MarSchedule s(c, {.steps = 25});
    const double c1 = s.step(k).posterior_x0;
    const double error = c.calibration.error_at(s.step(k).time);
    EXPECT_NEAR(std::pow(s.step(k).sigma, 2.0),
                std::pow(sigma(MarVariance::kPosterior, k), 2.0) + c1 * c1 * error, 1e-14);
  }
  EXPECT_NEAR(c.calibration.error_at(500), 0.01 * std::pow(2.0, 500.0 / 999.0), 1e-9);
  EXPECT_EQ(c.calibration.error_at(999), 0.02);
}

TEST(MarSchedule, TruncationLeavesOutTheLastTransitionAndTemperatureScalesSigma) {
  const MarConfig c = config_with(MarPrediction::kVelocity);
  const MarSchedule cut(c, {.steps = 25}),
      whole(c, {.steps = 25, .final_step = MarFinalStep::kNoisy}),
      cold(c, {.steps = 25, .temperature = 0.5});
  EXPECT_EQ(cut.transitions(), 24);
  EXPECT_EQ(whole.transitions(), 25);
  EXPECT_EQ(cut.step(23).time, whole.step(23).time);
  EXPECT_GT(whole.step(24).sigma, 0.0);
  EXPECT_EQ(cold.step(7).sigma, 0.5 * cut.step(7).sigma);
}

TEST(MarSchedule, RefusesWhatItCannotSample) {
  MarConfig c = config_with(MarPrediction::kVelocity);
  EXPECT_THROW(MarSchedule(c, {.steps = 1}), std::invalid_argument);
  EXPECT_THROW(MarSchedule(c, {.steps = 1001}), std::invalid_argument);
  EXPECT_THROW(MarSchedule(c, {.variance = MarVariance::kLearned}), std::invalid_argument);
  EXPECT_THROW(MarSchedule(c, {.temperature = 0.0}), std::invalid_argument);
  c.calibration = {};
  EXPECT_THROW(MarSchedule(c, {}), std::invalid_argument);
}

}  // namespace
}  // namespace forerun
