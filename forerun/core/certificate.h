#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forerun/core/categorical.h"
#include "forerun/core/draws.h"
#include "forerun/core/gaussian.h"

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

/// Certifies sampled tokens. The caller scores every output again by undrafted passes of the target
/// and hands over the conditional p_i and what was drafted there; nothing of what the drafted run
/// computed is used.
///
/// Outputs: u_i = P(rank below y_i) + v_i p(y_i), tokens ranked by falling p, are iid uniform if
/// y_i ~ p_i given its past (Rosenblatt 1952; Brockwell 2007 for the randomisation v_i).
/// Drafts: z = sum(f_i(y_i) - E_p f_i) / sqrt(sum Var_p f_i). f_i may depend on the past and on
/// the law a draft was sampled from (on the drafted token itself only if it was found, not
/// sampled), so its terms are martingale differences. Every `add` throws std::invalid_argument for
/// an id outside the vocabulary, or two vocabularies.
class TokenCertificate {
 public:
  /// An output; `v` uniform on [0, 1) and used for nothing else (Purpose::kCertificate).
  void add_output(const Categorical& target, Token y, double v);
  /// An output at a position whose draft, `drafted`, was chosen or searched: f = [y = drafted].
  void add_point_draft(const Categorical& target, Token drafted, Token y);
  /// An output at a position whose draft was sampled from `draft`:
  /// f = clip(log((q + 1e-9) / (p + 1e-9)), -5, 5).
  void add_sampled_draft(const Categorical& target, const Categorical& draft, Token y);

  CertificateReport report() const;
  std::span<const double> transforms() const noexcept { return transforms_; }

 private:
  void add_score(double centred, double variance, double most);

  std::vector<double> transforms_;
  std::uint64_t drafted_ = 0;
  std::uint64_t forbidden_ = 0;
  double sum_ = 0.0;
  double variance_ = 0.0;
  double worst_ = 0.0;
  double most_ = 0.0;  // the largest score that was possible
};

/// Certifies Gaussian steps: r = (x - m) / s is iid standard normal. z projects r on the direction
/// from the target's mean to the draft's: an acceptance bias moves the output along it and nowhere
/// else.
class GaussianCertificate {
 public:
  /// @param target  conditional of this step, from an undrafted pass; sigma > 0
  /// @param draft_mean  [dim], or empty where nothing was drafted
  /// @param value   [dim] the output
  /// @throws std::invalid_argument  dimensions differ, sigma not above 0
  void add(const Gaussian& target, std::span<const float> draft_mean, std::span<const float> value);
  CertificateReport report() const;

 private:
  // Transforms by size: one a coordinate, they are too many to keep. A cell is far narrower than
  // any distance that the test could find.
  std::vector<std::uint32_t> cells_;
  std::uint64_t coordinates_ = 0;
  double energy_ = 0.0;
  std::uint64_t outputs_ = 0, drafted_ = 0;
  double sum_ = 0.0;
};

}  // namespace forerun
