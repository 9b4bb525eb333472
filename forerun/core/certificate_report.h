#pragma once

#include <cstdint>

namespace forerun {

/// Result of a certificate. Under an exact rule z is standard normal and p values are uniform.
struct CertificateReport {
  std::uint64_t outputs = 0;  ///< outputs scored again
  std::uint64_t drafted = 0;  ///< of these, outputs with an examined draft: z covers them
  double z = 0.0;  ///< shift of the outputs towards (or away from) the drafts, in standard errors
  double ks_statistic = 0.0;
  double ks_p = 1.0;            ///< Kolmogorov-Smirnov p of the probability integral transforms
  double energy_p = 1.0;        ///< Gaussian steps only: chi-square p of |r|^2
  std::uint64_t forbidden = 0;  ///< outputs to which the target gives probability 0
  /// Bound on the probability of such a shift under an exact rule (Freedman 1975): sharp with many
  /// drafts, and still valid with three, where z is not yet normal. 0 leaves the verdict to z.
  double z_p = 0.0;

  /// No evidence of a bias: |z| < 4 (or z_p above 6e-5, because few drafts make z unreliable), p
  /// values above 1e-4 and no forbidden output. An exact rule fails by chance in fewer than 3 runs
  /// of 10,000.
  bool passed() const noexcept;
};

}  // namespace forerun
