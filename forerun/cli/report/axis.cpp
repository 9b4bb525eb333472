#include "forerun/cli/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace forerun::cli::report {

double Axis::at(double value) const {
  const double place =
      logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return place > 0.0 ? 100.0 * std::min(place, 1.0) : 0.0;  // NaN lies at the low end
}

Axis linear_axis(double highest, int wanted) {
  const double top = std::isfinite(highest) && highest > 1e-9 ? std::min(highest, 1e12) : 1.0;
  const double power = std::pow(10.0, std::floor(std::log10(top / wanted)));
  double step = 10.0 * power;
  for (const double multiple : {5.0, 2.5, 2.0, 1.0}) {
    if (multiple * power * wanted >= top) step = multiple * power;
  }
  Axis axis;
  const auto steps = static_cast<int>(std::ceil(top / step - 1e-9));
  axis.high = steps * step;
  for (int i = 0; i <= steps; ++i) axis.ticks.push_back(i * step);
  return axis;
}

Axis log_axis(double low, double high) {
  constexpr std::size_t kMany = 8;
  Axis axis{low, std::max(high, low * 1.01), true, {}};
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(axis.high)));
  std::vector<double> powers;
  for (int e = first; e <= last; ++e) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double value = digit * std::pow(10.0, e);
      if (value < low || value > axis.high) continue;
      axis.ticks.push_back(value);
      if (digit == 1.0) powers.push_back(value);
    }
  }
  if (axis.ticks.size() > kMany) axis.ticks = powers;
  return axis;
}

std::string tick_text(double value) { return fmt::format("{:.4g}", value); }

}  // namespace forerun::cli::report
