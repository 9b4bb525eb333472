#pragma once

#include <cstdint>
#include <vector>

#include "forerun/models/mar/mar_config.h"

namespace forerun {

/// Variance of a transition, one number for all coordinates but for kLearned. Networks that share
/// it differ in means alone.
enum class MarVariance : std::uint8_t {
  kCalibrated,  ///< the posterior's, plus that of the mean through the measured error of x_0
  kBeta,        ///< beta (the fixed large one)
  kPosterior,   ///< the posterior's; that of the last transition is that of the one before
  kLearned,     ///< of each coordinate by the network, between posterior and beta in logarithms
};

/// How a chain ends. All published samplers add no noise in the last transition, which leaves the
/// token without a density.
enum class MarFinalStep : std::uint8_t {
  kTruncate,       ///< the last transition is left out: the token is the state before it
  kNoisy,          ///< it adds noise like the others
  kDeterministic,  ///< as published: the token has no density
};

/// How a token is sampled. Part of what a target is: its plain decoding uses it too.
struct MarSampling {
  std::int64_t steps = 25;  ///< noise levels, of the 1,000 of training
  MarVariance variance = MarVariance::kCalibrated;
  MarFinalStep final_step = MarFinalStep::kTruncate;
  double temperature = 1.0;  ///< times every sigma; the first state stays standard normal
  bool operator==(const MarSampling&) const = default;
};

/// One transition x' = N(posterior_x0 * x_0 + posterior_x * x, sigma^2), x_0 = x0_x * x +
/// x0_output * (what the head predicts), held within the config's bounds.
struct MarStep {
  std::int64_t time = 0;  ///< the head's input, an index among the 1,000 of training
  double alpha_bar = 1.0, beta = 0.0;
  double x0_x = 1.0, x0_output = 0.0;
  double posterior_x0 = 1.0, posterior_x = 0.0;
  double sigma = 0.0;  ///< 0 in the last of kDeterministic
  /// Logarithms of the variances that kLearned lies between.
  double log_posterior = 0.0, log_beta = 0.0;
};

/// The cosine schedule (Nichol and Dhariwal 2021, arXiv:2102.09672, eq. 17) reduced to fewer steps
/// as in openai/guided-diffusion. Tables in float64.
class MarSchedule {
 public:
  static constexpr std::int64_t kTrained = 1000;

  /// @throws std::invalid_argument  steps outside 2 to 1,000, a temperature that is not positive,
  /// or a variance that the config has not got
  MarSchedule(const MarConfig& config, const MarSampling& sampling);

  std::int64_t transitions() const noexcept { return static_cast<std::int64_t>(steps_.size()); }
  /// @param k  transition in the order of sampling, 0 first; the state after the last is the token
  const MarStep& step(std::int64_t k) const { return steps_.at(static_cast<std::size_t>(k)); }

 private:
  std::vector<MarStep> steps_;  // in the order of sampling
};

/// alpha_bar of training: x_t = sqrt(alpha_bar) x_0 + sqrt(1 - alpha_bar) noise.
double mar_alpha_bar(std::int64_t time);
/// The times that are kept of 1,000, rising: evenly spaced, rounded half to even.
std::vector<std::int64_t> mar_times(std::int64_t steps);

}  // namespace forerun
