#pragma once

#include <span>
#include <vector>

#include "forerun/core/couple.h"
#include "forerun/core/draws.h"

namespace forerun {

/// N(mean, sigma^2 I): one reverse diffusion step. A view of its mean.
struct Gaussian {
  std::span<const float> mean;  ///< [dim] float32
  double sigma = 0.0;           ///< standard deviation of each coordinate; 0 makes it a point mass

  /// A draw with the normals of `purpose` at this place.
  std::vector<float> sample(Purpose purpose, const Draws& draws) const;
};

/// Keeps `drafted` with probability min(1, target(x) / draft(x)), else mirrors it: the noise
/// drafted - draft.mean is reflected along draft.mean - target.mean and put on the target's mean.
/// Output law: `target`. P(accepted) = 1 - TV = 2 Phi(-|draft.mean - target.mean| / (2 sigma)),
/// which no coupling beats. Sigma 0: the value is the target's mean, accepted iff `drafted` equals
/// it.
/// @param drafted  [dim] float32, sampled from `draft`; returned untouched when accepted
/// @throws std::invalid_argument  dimensions or sigmas differ, sigma negative or NaN
/// Source: reflection maximal coupling, Bou-Rabee, Eberle, Zimmer 2020, section 2.3.2, as used for
/// diffusion by De Bortoli et al. 2025, arXiv:2501.05370, Algorithm 2.
Coupled<std::vector<float>> couple(const Gaussian& target, const Gaussian& draft,
                                   std::vector<float> drafted, const Draws& draws);

}  // namespace forerun
