#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forerun {

/// How noise is removed, and the variance of a step.
struct DdpmOptions {
  std::int64_t steps = 1000;  ///< transitions of sampling: all 1,000 of training, or fewer
  /// log sigma^2 = share * log(beta) + (1 - share) * log(posterior variance): 0 is the fixed small
  /// variance, 1 the fixed large one (Ho et al. 2020, section 3.2).
  double variance_share = 0.0;
  /// Stochasticity (Song et al. 2021, eq. 16): 1 is DDPM; 0, which is refused, would be DDIM and
  /// have no variance. Only with variance_share 0.
  double eta = 1.0;
};

/// One transition x' = N(mean_x * x + mean_noise * eps, sigma^2), eps the predicted noise of x.
struct DdpmStep {
  std::int64_t time = 0;  ///< the network's input: an index among the 1,000 of training
  double mean_x = 1.0, mean_noise = 0.0;
  double sigma = 0.0;  ///< 0 at the last transition
  /// The predicted x0: x_0 = x0_x * x + x0_noise * eps.
  double x0_x = 1.0, x0_noise = 0.0;
  /// The same mean from it: posterior_x0 * x_0 + posterior_x * x.
  double posterior_x0 = 0.0, posterior_x = 1.0;
  double beta = 0.0;
  double alpha_bar = 1.0;  ///< share of the image's variance left before the transition
  /// Distance of the means for a distance of the noises: |mean - mean'| / (sigma |eps - eps'|);
  /// infinite at sigma 0. The overlap of the two Gaussians is 2 Phi(-kappa |eps - eps'| / 2).
  double kappa = 0.0;
};

/// The linear schedule of DDPM (betas 1e-4 to 0.02 over 1,000 steps; Ho et al. 2020, section 4),
/// reduced to `steps` of them as in facebookresearch/DiT: evenly spaced from the first to the last.
/// Tables in float64.
class DdpmSchedule {
 public:
  static constexpr std::int64_t kTrained = 1000;

  /// @throws std::invalid_argument  steps outside 1 to 1,000; a share outside 0 to 1; an eta that
  /// is not positive, or leaves no variance for the mean
  explicit DdpmSchedule(const DdpmOptions& options = {});

  std::int64_t steps() const noexcept { return static_cast<std::int64_t>(steps_.size()); }
  /// @param k  transition in the order of sampling, 0 first
  const DdpmStep& step(std::int64_t k) const {
    return steps_[static_cast<std::size_t>(steps() - 1 - k)];
  }

 private:
  std::vector<DdpmStep> steps_;  // by index of the schedule: the last of sampling first
};

/// The mean of a transition, coordinate by coordinate.
/// @param x, noise, mean  of one length; mean may be x
void ddpm_mean(const DdpmStep& step, std::span<const float> x, std::span<const float> noise,
               std::span<float> mean);

/// The predicted x0 of a state and its predicted noise, coordinate by coordinate; and the noise of
/// a state for a given predicted x0. Inverses of each other.
/// @param out  of the same length; may be one of the others
void ddpm_predicted_x0(const DdpmStep& step, std::span<const float> x, std::span<const float> noise,
                       std::span<float> out);
void ddpm_noise_of(const DdpmStep& step, std::span<const float> x, std::span<const float> image,
                   std::span<float> out);

/// A noisy training image: sqrt(alpha_bar) image + sqrt(1 - alpha_bar) noise.
double ddpm_alpha_bar(std::int64_t time);

}  // namespace forerun
