#include "forerun/models/ddpm_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace forerun {
namespace {

using Table = std::array<double, DdpmSchedule::kTrained>;

// Share of the image's variance left at each time of training.
const Table& alpha_bars() {
  static const Table table = [] {
    constexpr double kFirst = 1e-4, kLast = 0.02;
    Table t{};
    double product = 1.0;
    for (std::size_t i = 0; i < t.size(); ++i) {
      const double beta =
          kFirst + (kLast - kFirst) * static_cast<double>(i) / static_cast<double>(t.size() - 1);
      t[i] = product *= 1.0 - beta;
    }
    return t;
  }();
  return table;
}

// Times of training that are kept, rising.
std::vector<std::int64_t> kept_times(std::int64_t steps) {
  std::vector<std::int64_t> out;
  const double stride =
      steps > 1 ? static_cast<double>(DdpmSchedule::kTrained - 1) / static_cast<double>(steps - 1)
                : 1.0;
  double at = 0.0;  // added up and rounded half to even, like the reference
  for (std::int64_t i = 0; i < steps; ++i, at += stride) {
    out.push_back(static_cast<std::int64_t>(std::nearbyint(at)));
  }
  return out;
}

DdpmStep step_of(std::int64_t time, double bar, double previous, const DdpmOptions& o) {
  DdpmStep s;
  s.time = time;
  const double alpha = bar / previous;
  s.beta = 1.0 - alpha;
  s.alpha_bar = bar;
  s.x0_x = 1.0 / std::sqrt(bar);
  s.x0_noise = -std::sqrt(1.0 / bar - 1.0);
  s.posterior_x0 = s.beta * std::sqrt(previous) / (1.0 - bar);
  s.posterior_x = (1.0 - previous) * std::sqrt(alpha) / (1.0 - bar);
  const double posterior = s.beta * (1.0 - previous) / (1.0 - bar);
  // The mean's own variance: eta's, which is the posterior's at eta 1.
  const double part = o.eta * o.eta * posterior;
  const double left = 1.0 - previous - part;
  if (left < 0.0) {
    throw std::invalid_argument(
        fmt::format("eta {} asks for more noise than there is at time {}; at most {:.3f} does",
                    o.eta, time, std::sqrt((1.0 - previous) / posterior)));
  }
  s.mean_x = std::sqrt(previous / bar);
  s.mean_noise = std::sqrt(left) - std::sqrt(previous * (1.0 - bar) / bar);
  if (posterior > 0.0) {
    s.sigma = o.variance_share == 0.0
                  ? std::sqrt(part)
                  : std::exp(0.5 * (o.variance_share * std::log(s.beta) +
                                    (1.0 - o.variance_share) * std::log(posterior)));
  }
  s.kappa =
      s.sigma > 0.0 ? std::abs(s.mean_noise) / s.sigma : std::numeric_limits<double>::infinity();
  return s;
}

}  // namespace

DdpmSchedule::DdpmSchedule(const DdpmOptions& o) {
  if (o.steps < 1 || o.steps > kTrained) {
    throw std::invalid_argument(
        fmt::format("{} steps: the schedule has 1 to {}", o.steps, kTrained));
  }
  if (!(o.variance_share >= 0.0 && o.variance_share <= 1.0) || !(o.eta > 0.0 && o.eta <= 2.0)) {
    throw std::invalid_argument(fmt::format(
        "a variance share of {} (0 to 1) or an eta of {} (above 0, to 2) is out of range",
        o.variance_share, o.eta));
  }
  if (o.variance_share != 0.0 && o.eta != 1.0) {
    throw std::invalid_argument("eta changes the small variance only: give it or a variance share");
  }
  double previous = 1.0;
  for (const std::int64_t time : kept_times(o.steps)) {
    const double bar = alpha_bars()[static_cast<std::size_t>(time)];
    steps_.push_back(step_of(time, bar, previous, o));
    previous = bar;
  }
}

void ddpm_mean(const DdpmStep& step, std::span<const float> x, std::span<const float> noise,
               std::span<float> mean) {
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] = static_cast<float>(step.mean_x * static_cast<double>(x[i]) +
                                 step.mean_noise * static_cast<double>(noise[i]));
  }
}

void ddpm_predicted_x0(const DdpmStep& step, std::span<const float> x, std::span<const float> noise,
                       std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(step.x0_x * static_cast<double>(x[i]) +
                                step.x0_noise * static_cast<double>(noise[i]));
  }
}

void ddpm_noise_of(const DdpmStep& step, std::span<const float> x, std::span<const float> image,
                   std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(
        (static_cast<double>(image[i]) - step.x0_x * static_cast<double>(x[i])) / step.x0_noise);
  }
}

double ddpm_alpha_bar(std::int64_t time) { return alpha_bars().at(static_cast<std::size_t>(time)); }

}  // namespace forerun
