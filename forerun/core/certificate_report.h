#pragma once

#include <cstdint>

namespace forerun {

/// What a certificate found. Under an exact rule z is standard normal and p values are uniform.
struct CertificateReport {
  std::uint64_t outputs = 0;  ///< outputs scored again
  std::uint64_t drafted = 0;  ///< of these, where a draft was examined: z speaks of them
  double z = 0.0;  ///< how far the outputs lean to (or from) the drafts, in standard errors
  double ks_statistic = 0.0;
  double ks_p = 1.0;            ///< Kolmogorov-Smirnov p of the probability integral transforms
  double energy_p = 1.0;        ///< Gaussian steps only: chi-square p of |r|^2
  std::uint64_t forbidden = 0;  ///< outputs to which the target gives probability 0
  /// Bound on the probability that exact draws lean as far (Freedman 1975): sharp with many drafts,
  /// and still true with three, where z is no normal yet. 0 leaves the verdict to z.
  double z_p = 0.0;
  double worst_score =
      0.0;  ///< largest standardised single score; large with few drafts: z is no normal yet

  /// No evidence of a bias: |z| < 4 (or z_p above 6e-5, where few drafts make z wild), p values
  /// above 1e-4 and no forbidden output. An exact rule fails by chance in fewer than 3 runs of
  /// 10,000.
  bool passed() const noexcept;
};

}  // namespace forerun
