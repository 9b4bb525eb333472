#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/categorical.h"
#include "forerun/core/certificate_report.h"
#include "forerun/core/gaussian.h"

namespace forerun {

/// Certifies sampled tokens. The caller scores every output again by undrafted passes of the target
/// and passes the conditional p_i and the draft at that position. Nothing computed by the drafted
/// run is used.
///
/// Outputs: u_i = P(rank below y_i) + v_i p(y_i), tokens ranked by falling p, are iid uniform if
/// y_i ~ p_i given its past (Rosenblatt 1952; Brockwell 2007 for the randomisation v_i). Drafts: z
/// = sum(f_i(y_i) - E_p f_i) / sqrt(sum Var_p f_i). f_i may depend on the past and on the law a
/// draft was sampled from (on the drafted token itself only if the draft is deterministic, not
/// sampled), so its terms are martingale differences. Scored are outputs 1 to kept + 1 of a round:
/// also under block verification, where the number kept depends on later drafts, an output has the
/// law p given the past and that all drafts before it were kept. Every `add` throws
/// std::invalid_argument for an id outside the vocabulary, or two vocabularies.
class TokenCertificate {
 public:
  /// An output; `v` uniform on [0, 1) and used for nothing else (Purpose::kCertificate).
  void add_output(const Categorical& target, Token y, double v);
  /// An output at a position whose drafts, distinct, were chosen or searched: f = [y is one].
  void add_point_drafts(const Categorical& target, std::span<const Token> drafted, Token y);
  void add_point_draft(const Categorical& target, Token drafted, Token y) {
    add_point_drafts(target, {&drafted, 1}, y);
  }
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
  double most_ = 0.0;  // largest possible score
};

/// Certifies Gaussian steps: r = (x - m) / s is iid standard normal. z projects r on the direction
/// from the target's mean to the draft's, the only direction in which an acceptance bias moves the
/// output.
class GaussianCertificate {
 public:
  /// @param target  conditional of this step, from an undrafted pass; sigma > 0
  /// @param draft_mean  [dim], or empty if there was no draft
  /// @param value   [dim] the output
  /// @throws std::invalid_argument  dimensions differ, sigma not above 0
  void add(const Gaussian& target, std::span<const float> draft_mean, std::span<const float> value);
  CertificateReport report() const;

 private:
  // Counts of the transforms in cells: there is one a coordinate, too many to keep. A cell is far
  // narrower than any distance that the test can detect.
  std::vector<std::uint32_t> cells_;
  std::uint64_t coordinates_ = 0;
  double energy_ = 0.0;
  std::uint64_t outputs_ = 0, drafted_ = 0;
  double sum_ = 0.0;
};

}  // namespace forerun
