#include "forerun/core/tests_of_fit.h"

#include <algorithm>
#include <cmath>

namespace forerun {
namespace {

double kolmogorov_tail(double x) {
  if (x < 0.2) return 1.0;
  double sum = 0.0;
  double sign = 1.0;
  for (int k = 1; k <= 100; ++k) {
    const double term = std::exp(-2.0 * k * k * x * x);
    sum += sign * term;
    if (term < 1e-16) break;
    sign = -sign;
  }
  return std::clamp(2.0 * sum, 0.0, 1.0);
}

double gamma_p_series(double a, double x) {
  double term = 1.0 / a;
  double sum = term;
  for (double n = a + 1.0; term > sum * 1e-16; n += 1.0) {
    term *= x / n;
    sum += term;
  }
  return sum * std::exp(-x + a * std::log(x) - std::lgamma(a));
}

// Lentz's evaluation of the continued fraction of Q(a, x), for x > a + 1.
double gamma_q_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1.0 - a;
  double c = 1.0 / kTiny;
  double d = 1.0 / b;
  double h = d;
  for (int i = 1; i < 100000; ++i) {
    const double an = -i * (i - a);
    b += 2.0;
    d = an * d + b;
    if (std::abs(d) < kTiny) d = kTiny;
    c = b + an / c;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1.0 / d;
    h *= d * c;
    if (std::abs(d * c - 1.0) < 1e-15) break;
  }
  return std::exp(-x + a * std::log(x) - std::lgamma(a)) * h;
}

struct Cell {
  double expected = 0.0, count = 0.0;
};

// Pearson's p-value; expectations are scaled to the number of counts.
double pearson_p(std::span<const Cell> cells) {
  double expected = 0.0;
  double counted = 0.0;
  for (const Cell& c : cells) {
    expected += c.expected;
    counted += c.count;
  }
  if (cells.size() < 2 || counted == 0.0) return 1.0;
  double statistic = 0.0;
  for (const Cell& c : cells) {
    const double e = c.expected * counted / expected;
    statistic += (c.count - e) * (c.count - e) / e;
  }
  return chi_square_tail(statistic, static_cast<double>(cells.size() - 1));
}

}  // namespace

double normal_cdf(double x) noexcept { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

KsResult ks_uniform(std::vector<double> values) {
  if (values.empty()) return {};
  if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) {
    return {.statistic = 1.0, .p = 0.0};
  }
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double d = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto k = static_cast<double>(i);
    d = std::max({d, values[i] - k / n, (k + 1.0) / n - values[i]});
  }
  const double root = std::sqrt(n);
  return {d, kolmogorov_tail((root + 0.12 + 0.11 / root) * d)};
}

KsResult ks_uniform_counts(std::span<const std::uint32_t> cells) {
  double n = 0.0;
  for (const std::uint32_t c : cells) n += c;
  if (n == 0.0) return {};
  double below = 0.0, d = 0.0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    below += cells[i];
    d = std::max(
        d, std::abs(below / n - static_cast<double>(i + 1) / static_cast<double>(cells.size())));
  }
  const double root = std::sqrt(n);
  return {d, kolmogorov_tail((root + 0.12 + 0.11 / root) * d)};
}

double chi_square_tail(double x, double freedom) noexcept {
  // A statistic that is not finite is no evidence of a good fit.
  if (std::isnan(x) || (std::isinf(x) && x > 0.0)) return 0.0;
  if (!(x > 0.0)) return 1.0;
  const double a = 0.5 * freedom;
  const double h = 0.5 * x;
  return h < a + 1.0 ? 1.0 - gamma_p_series(a, h) : gamma_q_fraction(a, h);
}

double chi_square_p(std::span<const double> probabilities, std::span<const std::size_t> counts) {
  double n = 0.0;
  for (const std::size_t c : counts) n += static_cast<double>(c);
  std::vector<Cell> cells;
  Cell pool;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = n * probabilities[i];
    const auto count = static_cast<double>(counts[i]);
    if (expected == 0.0 && count > 0.0) return 0.0;
    Cell& to = expected >= 5.0 ? cells.emplace_back() : pool;
    to.expected += expected;
    to.count += count;
  }
  if (pool.expected >= 5.0) cells.push_back(pool);
  const double p = pearson_p(cells);
  if (pool.expected >= 5.0 || pool.expected == 0.0) return p;
  // Too few for Pearson, where a single count could be significant: P(Poisson(expected) >= count).
  const double thin =
      pool.count > 0.0 ? 1.0 - chi_square_tail(2.0 * pool.expected, 2.0 * pool.count) : 1.0;
  return std::min(1.0, 2.0 * std::min(p, thin));
}

}  // namespace forerun
