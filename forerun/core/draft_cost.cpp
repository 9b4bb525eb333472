#include "forerun/core/draft_cost.h"

#include <algorithm>
#include <cmath>

namespace forerun {
namespace {

constexpr double kAveragedRounds = 32.0;  // rounds
// Variance of the number drafted, in tokens squared, at which the observed slope has the same
// weight as "all of it is per token".
constexpr double kSpread = 0.25;

bool usable(double seconds) noexcept { return std::isfinite(seconds) && seconds > 0.0; }

double believed(OutlierClip& excess, double seconds, double expected) noexcept {
  return expected > 0.0 ? expected * std::exp(excess.clip(std::log(seconds / expected))) : seconds;
}

}  // namespace

void SteadySeconds::observe(double seconds) noexcept {
  if (!usable(seconds)) return;
  const double s = believed(outlier_clip_, seconds, mean_);
  seen_ = std::min(seen_ + 1.0, outlier_clip_.sudden() ? 2.0 : kAveragedRounds);
  mean_ += (s - mean_) / seen_;
}

void DraftCost::observe(std::size_t tokens, double seconds_seen) noexcept {
  if (tokens == 0 || !usable(seconds_seen)) return;
  const double n = static_cast<double>(tokens);
  const double s = believed(outlier_clip_, seconds_seen, seconds(tokens));
  weight_ = std::min(weight_ + 1.0, outlier_clip_.sudden() ? 2.0 : kAveragedRounds);
  const double part = 1.0 / weight_;
  const double dn = n - tokens_, ds = s - seconds_;
  tokens_ += part * dn;
  seconds_ += part * ds;
  variance_ = (1.0 - part) * (variance_ + part * dn * dn);
  shared_ = (1.0 - part) * (shared_ + part * dn * ds);
  const double all_per_token = seconds_ / tokens_;
  const double slope = (shared_ + kSpread * all_per_token) / (variance_ + kSpread);
  per_token_ = std::clamp(slope, 0.0, all_per_token);
  fixed_ = seconds_ - per_token_ * tokens_;
}

void DraftCost::scale(double factor) noexcept {
  for (double* seconds : {&seconds_, &shared_, &fixed_, &per_token_}) *seconds *= factor;
}

}  // namespace forerun
