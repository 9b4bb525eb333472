#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/couple.h"

namespace forerun {

struct RngKey;
enum class Purpose : std::uint8_t;

/// N(mean, sigma^2 I): one reverse diffusion step. A view of its mean.
struct Gaussian {
  std::span<const float> mean;  ///< [dim] float32
  double sigma = 0.0;           ///< standard deviation of each coordinate; 0 makes it a point mass

  /// A draw with the normals of `purpose` at this position.
  std::vector<float> sample(Purpose purpose, const RngKey& key) const;
  /// The draw that this noise makes. @param noise  [dim] standard normals; overwritten
  std::vector<float> with(std::vector<float> noise) const;
};

/// Keeps `drafted` with probability min(1, target(x) / draft(x)), else reflects it: the noise
/// drafted - draft.mean is reflected along draft.mean - target.mean and added to the target's mean.
/// Output law: `target`. P(accepted) = 1 - TV = 2 Phi(-|draft.mean - target.mean| / (2 sigma)), the
/// maximum of all couplings. Sigma 0: the value is the target's mean, accepted iff `drafted` equals
/// it.
///
/// Where the draft's mean is not finite, or some coordinate of it is over 16 times larger than
/// sigma and all of the target's mean, `drafted` does not hold its noise: the value is then the
/// target's own sample (Purpose::kTarget). The means alone decide that, so the law stays; an
/// acceptance of at most 1e-13 is given up.
/// @param drafted  [dim] float32, sampled from `draft`; returned unchanged when accepted
/// @throws std::invalid_argument  dimensions or sigmas differ, sigma negative or NaN
/// Source: reflection maximal coupling, Bou-Rabee, Eberle, Zimmer 2020, section 2.3.2, as used for
/// diffusion by De Bortoli et al. 2025, arXiv:2501.05370, Algorithm 2.
Coupled<std::vector<float>> couple(const Gaussian& target, const Gaussian& draft,
                                   std::vector<float> drafted, const RngKey& key);

/// INEXACT for a relaxation below 1. The same, but keeps `drafted` with probability min(1,
/// (target(x) / draft(x))^relaxation): 1 is the exact coupling, 0 keeps every draft. Rejected
/// values are reflected as before.
/// @param relaxation  0 to 1
/// @throws std::invalid_argument  as `couple`
/// Source: FREE (relax), arXiv:2511.20390, section 3.4.
Coupled<std::vector<float>> couple_relaxed(const Gaussian& target, const Gaussian& draft,
                                           std::vector<float> drafted, const RngKey& key,
                                           double relaxation);

/// Common to both, with the uniform of the decision given.
Coupled<std::vector<float>> reflect(const Gaussian& target, const Gaussian& draft,
                                    std::vector<float> drafted, double uniform, double relaxation);

/// How a draft differs from the target at one step, for block verification.
struct GaussianStep {
  double log_ratio = 0.0;  ///< log target(x) / draft(x) of the drafted value
  double delta = 0.0;      ///< distance of the means in sigmas
};
/// -infinity and infinity where the draft cannot be kept: see `couple`.
/// @throws std::invalid_argument  as `couple`
GaussianStep gaussian_step(const Gaussian& target, const Gaussian& draft,
                           std::span<const float> drafted);

/// Z, the mass of (weight * target - draft)+ for means `delta` sigmas apart.
/// @param weight  above 0, at most 1
/// Source: Soen et al. 2026, arXiv:2606.13426, for this residual; here from its density.
double residual_mass(double delta, double weight) noexcept;
/// The component, in sigmas from the target's mean towards the draft's, of a draw from (weight *
/// target - draft)+ normalised, at cumulative `u` in [0, 1). The orthogonal part is standard
/// normal.
double sample_residual(double delta, double weight, double u) noexcept;
/// The noise of `drafted`, its component along the means' difference replaced by `along`.
/// @return  [dim] float32
std::vector<float> noise_along(const Gaussian& target, const Gaussian& draft,
                               std::span<const float> drafted, double along);

/// Effect of the relaxation on the law of one step whose means are `delta` standard deviations
/// apart. Nothing changes orthogonally to their difference.
struct RelaxedLaw {
  double accept = 1.0;  ///< probability of keeping the draft
  double shift = 0.0;   ///< of the output's mean towards the draft's, in sigmas
  /// Total variation from the target: the acceptance in excess of the exact coupling's.
  double distance = 0.0;
};
RelaxedLaw relaxed_law(double delta, double relaxation) noexcept;

}  // namespace forerun
