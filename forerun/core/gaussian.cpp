#include "forerun/core/gaussian.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "forerun/core/rng_key.h"
#include "forerun/core/tests_of_fit.h"

namespace forerun {
namespace {

void check(const Gaussian& target, const Gaussian& draft, std::size_t dim) {
  if (target.mean.size() != dim || draft.mean.size() != dim) {
    throw std::invalid_argument(
        "couple: drafted value, target mean and draft mean have different dimensions");
  }
  if (target.sigma != draft.sigma || !(target.sigma >= 0.0)) {
    throw std::invalid_argument(
        "couple: the reflection needs one sigma >= 0 for target and draft; sample both with the "
        "target's fixed variance");
  }
}

// With z = (x - m') / s and D = (m' - m) / s the log ratio is -(z.D + |D|^2 / 2): no difference of
// large squares.
struct Offset {
  double z_delta = 0.0, delta_sq = 0.0;  // times the variance
};
Offset offset_of(const Gaussian& target, const Gaussian& draft, std::span<const float> drafted) {
  Offset out;
  for (std::size_t i = 0; i < drafted.size(); ++i) {
    const double d = static_cast<double>(draft.mean[i]) - static_cast<double>(target.mean[i]);
    out.z_delta += (static_cast<double>(drafted[i]) - static_cast<double>(draft.mean[i])) * d;
    out.delta_sq += d * d;
  }
  return out;
}

// Does float32 hold the noise of a value drawn around the draft's mean about as well as that of one
// drawn around the target's? The answer depends on the means alone: one that depended on the noise
// would bias.
bool holds_noise(const Gaussian& target, const Gaussian& draft) {
  constexpr double kMost = 16.0;
  double scale = target.sigma;
  for (const float m : target.mean) scale = std::max(scale, std::abs(static_cast<double>(m)));
  return std::all_of(draft.mean.begin(), draft.mean.end(), [&](float m) {
    return std::abs(static_cast<double>(m)) <= kMost * scale;  // false for NaN
  });
}

}  // namespace

std::vector<float> Gaussian::sample(Purpose purpose, const RngKey& key) const {
  std::vector<float> noise(mean.size());
  key.fill_normal(purpose, noise);
  return with(std::move(noise));
}

std::vector<float> Gaussian::with(std::vector<float> x) const {
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(static_cast<double>(mean[i]) + sigma * static_cast<double>(x[i]));
  }
  return x;
}

Coupled<std::vector<float>> couple(const Gaussian& target, const Gaussian& draft,
                                   std::vector<float> drafted, const RngKey& key) {
  return couple_relaxed(target, draft, std::move(drafted), key, 1.0);
}

Coupled<std::vector<float>> couple_relaxed(const Gaussian& target, const Gaussian& draft,
                                           std::vector<float> drafted, const RngKey& key,
                                           double relaxation) {
  check(target, draft, drafted.size());
  if (target.sigma > 0.0 && !holds_noise(target, draft)) {
    return {target.sample(Purpose::kTarget, key), false};
  }
  return reflect(target, draft, std::move(drafted), key.uniform(Purpose::kAccept), relaxation);
}

Coupled<std::vector<float>> reflect(const Gaussian& target, const Gaussian& draft,
                                    std::vector<float> drafted, double uniform, double relaxation) {
  check(target, draft, drafted.size());
  if (target.sigma == 0.0) {
    std::vector<float> mean(target.mean.begin(), target.mean.end());
    const bool same = mean == drafted;
    return {std::move(mean), same};
  }
  const auto [z_delta, delta_sq] = offset_of(target, draft, drafted);
  const double variance = target.sigma * target.sigma;
  const double log_ratio = -relaxation * (z_delta + 0.5 * delta_sq) / variance;
  // NaN compares false: a broken target is never accepted silently.
  if (std::log(uniform) < log_ratio) return {std::move(drafted), true};
  const double twice = delta_sq > 0.0 ? 2.0 * z_delta / delta_sq : 0.0;
  for (std::size_t i = 0; i < drafted.size(); ++i) {
    const double m = target.mean[i];
    const double d = static_cast<double>(draft.mean[i]) - m;
    const double noise = static_cast<double>(drafted[i]) - static_cast<double>(draft.mean[i]);
    drafted[i] = static_cast<float>(m + noise - twice * d);
  }
  return {std::move(drafted), false};
}

GaussianStep gaussian_step(const Gaussian& target, const Gaussian& draft,
                           std::span<const float> drafted) {
  check(target, draft, drafted.size());
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (target.sigma == 0.0) {
    const bool same = std::equal(drafted.begin(), drafted.end(), target.mean.begin());
    return same ? GaussianStep{} : GaussianStep{-kInf, kInf};
  }
  const auto [z_delta, delta_sq] = offset_of(target, draft, drafted);
  const double variance = target.sigma * target.sigma;
  const GaussianStep out{-(z_delta + 0.5 * delta_sq) / variance,
                         std::sqrt(delta_sq) / target.sigma};
  const bool fine = holds_noise(target, draft) && std::isfinite(out.log_ratio);
  return fine ? out : GaussianStep{-kInf, kInf};
}

namespace {

// Where weight * target and draft have equal density: the residual lies below.
double crossing(double delta, double weight) { return 0.5 * delta + std::log(weight) / delta; }

}  // namespace

double residual_mass(double delta, double weight) noexcept {
  if (!(delta > 0.0)) return 0.0;
  if (std::isinf(delta)) return weight;
  const double z = crossing(delta, weight);
  return std::max(0.0, weight * normal_cdf(z) - normal_cdf(z - delta));
}

double sample_residual(double delta, double weight, double u) noexcept {
  double high = crossing(delta, weight), low = std::min(high, 0.0) - 40.0;
  const double goal = u * residual_mass(delta, weight);
  for (double z = 0.5 * (low + high); low < z && z < high; z = 0.5 * (low + high)) {
    (weight * normal_cdf(z) - normal_cdf(z - delta) <= goal ? low : high) = z;
  }
  return high;
}

std::vector<float> noise_along(const Gaussian& target, const Gaussian& draft,
                               std::span<const float> drafted, double along) {
  check(target, draft, drafted.size());
  const auto [z_delta, delta_sq] = offset_of(target, draft, drafted);
  const double turn = along * target.sigma / std::sqrt(delta_sq) - z_delta / delta_sq;
  std::vector<float> out(drafted.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double m = target.mean[i], from = draft.mean[i], x = drafted[i];
    out[i] = static_cast<float>(((x - from) + turn * (from - m)) / target.sigma);
  }
  return out;
}

RelaxedLaw relaxed_law(double delta, double relaxation) noexcept {
  const auto density = [](double x) {
    return std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
  };
  const double l = relaxation, mu = 0.5 * delta;
  RelaxedLaw out;
  out.accept = normal_cdf(-mu) +
               std::exp(-0.5 * l * (1.0 - l) * delta * delta) * normal_cdf((0.5 - l) * delta);
  out.distance = out.accept - 2.0 * normal_cdf(-mu);
  // E along the direction: the draft's mean, minus twice the mean reflection of rejected drafts.
  const double a = mu * normal_cdf(mu) + density(mu);
  const double t = mu - l * delta;
  const double b =
      std::exp(-l * delta * mu + 0.5 * l * l * delta * delta) * (t * normal_cdf(t) + density(t));
  out.shift = delta - 2.0 * (a - b);
  return out;
}

}  // namespace forerun
