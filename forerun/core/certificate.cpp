#include "forerun/core/certificate.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "forerun/core/tests_of_fit.h"

namespace forerun {
namespace {

void check_id(const Categorical& law, Token t) {
  if (t >= 0 && static_cast<std::size_t>(t) < law.size()) return;
  throw std::invalid_argument("certificate: token " + std::to_string(t) +
                              " lies outside the vocabulary of " + std::to_string(law.size()) +
                              "; score outputs and drafts with the target's own vocabulary");
}

// Two-sided bound on the probability that a martingale of increments at most `most` and variance
// `variance` ends as far out as `lean`: 2 exp(-V/c^2 h(cS/V)), h(u) = (1 + u) log(1 + u) - u.
// Source: Freedman 1975, theorem 1.6.
double freedman_bound(double lean, double variance, double most) {
  if (lean == 0.0 || most == 0.0) return 1.0;
  const double u = most * lean / variance;
  const double h = (1.0 + u) * std::log1p(u) - u;
  return std::min(1.0, 2.0 * std::exp(-variance / (most * most) * h));
}

}  // namespace

bool CertificateReport::passed() const noexcept {
  const bool no_lean = std::abs(z) < 4.0 || z_p > 6e-5;
  return no_lean && ks_p > 1e-4 && energy_p > 1e-4 && forbidden == 0;
}

void TokenCertificate::add_output(const Categorical& target, Token y, double v) {
  check_id(target, y);
  const auto w = target.log_weights();
  const float own = w[static_cast<std::size_t>(y)];
  const double p = target.prob(y);
  if (p == 0.0) {
    ++forbidden_;
    return;
  }
  // Likelier tokens first, the lower id first among equals.
  double below = 0.0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const bool before = w[i] > own || (w[i] == own && i < static_cast<std::size_t>(y));
    if (before) below += target.prob(static_cast<Token>(i));
  }
  transforms_.push_back(std::clamp(below + v * p, 0.0, 1.0));
}

void TokenCertificate::add_point_drafts(const Categorical& target, std::span<const Token> drafted,
                                        Token y) {
  double p = 0.0;
  bool hit = false;
  for (const Token token : drafted) {
    check_id(target, token);
    p += target.prob(token);
    hit = hit || y == token;
  }
  p = std::min(p, 1.0);
  add_score((hit ? 1.0 : 0.0) - p, p * (1.0 - p), std::max(p, 1.0 - p));
}

void TokenCertificate::add_sampled_draft(const Categorical& target, const Categorical& draft,
                                         Token y) {
  check_id(target, y);
  if (draft.size() != target.size()) {
    throw std::invalid_argument("certificate: target and draft have different vocabularies");
  }
  const auto score = [&](Token t, double p) {
    return std::clamp(std::log((draft.prob(t) + 1e-9) / (p + 1e-9)), -5.0, 5.0);
  };
  double mean = 0.0;
  double square = 0.0;
  double low = 5.0;
  double high = -5.0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto t = static_cast<Token>(i);
    const double p = target.prob(t);
    if (p == 0.0) continue;
    const double f = score(t, p);
    mean += p * f;
    square += p * f * f;
    low = std::min(low, f);
    high = std::max(high, f);
  }
  add_score(score(y, target.prob(y)) - mean, std::max(0.0, square - mean * mean),
            std::max(high - mean, mean - low));
}

void TokenCertificate::add_score(double centred, double variance, double most) {
  ++drafted_;
  sum_ += centred;
  variance_ += variance;
  most_ = std::max(most_, most);
}

CertificateReport TokenCertificate::report() const {
  const KsResult ks = ks_uniform(transforms_);
  // A target without choice (variance 0) still detects an output it did not choose.
  const double scale = std::sqrt(std::max(variance_, 1e-12));
  const double z = drafted_ == 0 ? 0.0 : sum_ / scale;
  return {.outputs = transforms_.size() + forbidden_,
          .drafted = drafted_,
          .z = z,
          .ks_statistic = ks.statistic,
          .ks_p = ks.p,
          .forbidden = forbidden_,
          .z_p = drafted_ == 0 ? 1.0 : freedman_bound(std::abs(sum_), scale * scale, most_)};
}

void GaussianCertificate::add(const Gaussian& target, std::span<const float> draft_mean,
                              std::span<const float> value) {
  if (value.size() != target.mean.size() ||
      (!draft_mean.empty() && draft_mean.size() != value.size())) {
    throw std::invalid_argument(
        "certificate: output, target mean and draft mean have different dimensions");
  }
  if (!(target.sigma > 0.0)) {
    throw std::invalid_argument(
        "certificate: a step needs sigma > 0; leave out steps without noise, they are equal or "
        "they are not");
  }
  constexpr std::size_t kCells = 1U << 20;
  if (cells_.empty()) cells_.resize(kCells, 0);
  ++outputs_;
  coordinates_ += value.size();
  double projected = 0.0;
  double length = 0.0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const double m = target.mean[i];
    const double r = (static_cast<double>(value[i]) - m) / target.sigma;
    // NaN fails the comparison and falls into the last cell, where the test detects it.
    const double place = normal_cdf(r) * static_cast<double>(kCells);
    ++cells_[place < static_cast<double>(kCells) ? static_cast<std::size_t>(place) : kCells - 1];
    energy_ += r * r;
    if (draft_mean.empty()) continue;
    const double d = static_cast<double>(draft_mean[i]) - m;
    projected += r * d;
    length += d * d;
  }
  if (length > 0.0 && std::isfinite(length)) {  // drafts that are not finite are ignored
    sum_ += projected / std::sqrt(length);
    ++drafted_;
  }
}

CertificateReport GaussianCertificate::report() const {
  const KsResult ks = ks_uniform_counts(cells_);
  const auto freedom = static_cast<double>(coordinates_);
  const double tail = freedom == 0 ? 0.5 : chi_square_tail(energy_, freedom);
  return {.outputs = outputs_,
          .drafted = drafted_,
          .z = drafted_ == 0 ? 0.0 : sum_ / std::sqrt(static_cast<double>(drafted_)),
          .ks_statistic = ks.statistic,
          .ks_p = ks.p,
          // two-sided: too little energy is a bias too
          .energy_p = std::min(1.0, 2.0 * std::min(tail, 1.0 - tail)),
          .forbidden = 0,
          // Projections of exact steps are normal from the first step on.
          .z_p = drafted_ == 0 ? 1.0
                               : 2.0 * normal_cdf(-std::abs(sum_) /
                                                  std::sqrt(static_cast<double>(drafted_)))};
}

}  // namespace forerun
