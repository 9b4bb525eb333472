#include "forerun/models/mar/mar_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace forerun {
namespace {

using Table = std::array<double, MarSchedule::kTrained>;

const Table& alpha_bars() {
  static const Table table = [] {
    const auto bar = [](double u) {
      const double x = std::cos((u + 0.008) / 1.008 * std::numbers::pi / 2.0);
      return x * x;
    };
    constexpr double kMostBeta = 0.999;
    Table t{};
    double product = 1.0;
    for (std::size_t i = 0; i < t.size(); ++i) {
      const double n = static_cast<double>(t.size()), at = static_cast<double>(i);
      product *= 1.0 - std::min(1.0 - bar((at + 1.0) / n) / bar(at / n), kMostBeta);
      t[i] = product;
    }
    return t;
  }();
  return table;
}

struct Level {
  std::int64_t time;
  double bar, previous;  // cumulative products, of this level and the next lower one
  double beta() const { return 1.0 - bar / previous; }
  double posterior() const { return beta() * (1.0 - previous) / (1.0 - bar); }
};

MarStep step_of(const Level& l, const MarConfig& config) {
  MarStep s;
  s.time = l.time;
  s.alpha_bar = l.bar;
  s.beta = l.beta();
  if (config.prediction == MarPrediction::kVelocity) {
    s.x0_x = std::sqrt(l.bar);
    s.x0_output = -std::sqrt(1.0 - l.bar);
  } else {
    s.x0_x = std::sqrt(1.0 / l.bar);
    s.x0_output = -std::sqrt(1.0 / l.bar - 1.0);
  }
  s.posterior_x0 = s.beta * std::sqrt(l.previous) / (1.0 - l.bar);
  s.posterior_x = (1.0 - l.previous) * std::sqrt(1.0 - s.beta) / (1.0 - l.bar);
  s.log_beta = std::log(s.beta);
  return s;
}

double variance_of(const MarStep& s, double posterior, MarVariance kind, const MarConfig& config) {
  switch (kind) {
    case MarVariance::kBeta:
      return s.beta;
    case MarVariance::kCalibrated:
      return posterior + s.posterior_x0 * s.posterior_x0 * config.calibration.error_at(s.time);
    case MarVariance::kPosterior:
    case MarVariance::kLearned:  // a bound; the network says what it is
      return std::exp(s.log_posterior);
  }
  return 0.0;
}

void check(const MarConfig& config, const MarSampling& o) {
  if (o.steps < 2 || o.steps > MarSchedule::kTrained) {
    throw std::invalid_argument(
        fmt::format("{} steps a token: the schedule has 2 to {}", o.steps, MarSchedule::kTrained));
  }
  if (!(o.temperature > 0.0 && std::isfinite(o.temperature))) {
    throw std::invalid_argument("the temperature of the chains must be positive");
  }
  if (o.variance == MarVariance::kCalibrated && config.calibration.empty()) {
    throw std::invalid_argument(
        "the network has no calibrated variance; choose beta, posterior or learned");
  }
  if (o.variance == MarVariance::kLearned && config.prediction != MarPrediction::kNoise) {
    throw std::invalid_argument("the network has not learned a variance; choose another one");
  }
}

}  // namespace

std::vector<std::int64_t> mar_times(std::int64_t steps) {
  std::vector<std::int64_t> out;
  const double stride =
      static_cast<double>(MarSchedule::kTrained - 1) / static_cast<double>(steps - 1);
  double at = 0.0;  // added up and rounded half to even, as in the reference
  for (std::int64_t i = 0; i < steps; ++i, at += stride) {
    out.push_back(
        std::min(static_cast<std::int64_t>(std::nearbyint(at)), MarSchedule::kTrained - 1));
  }
  return out;
}

MarSchedule::MarSchedule(const MarConfig& config, const MarSampling& o) {
  check(config, o);
  std::vector<Level> levels;
  double previous = 1.0;
  for (const std::int64_t time : mar_times(o.steps)) {
    const double bar = mar_alpha_bar(time);
    levels.push_back({time, bar, previous});
    previous = bar;
  }
  const bool truncated = o.final_step == MarFinalStep::kTruncate;
  for (std::size_t i = levels.size(); i-- > (truncated ? 1U : 0U);) {
    MarStep s = step_of(levels[i], config);
    const double posterior = levels[i].posterior();
    s.log_posterior = std::log(i == 0 ? levels[1].posterior() : posterior);
    s.sigma = o.temperature * std::sqrt(variance_of(s, posterior, o.variance, config));
    if (i == 0 && o.final_step == MarFinalStep::kDeterministic) s.sigma = 0.0;
    steps_.push_back(s);
  }
}

double mar_alpha_bar(std::int64_t time) { return alpha_bars().at(static_cast<std::size_t>(time)); }

}  // namespace forerun
