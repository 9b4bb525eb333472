#pragma once

#include <string>
#include <vector>

namespace forerun::cli::report {

/// One direction of a chart: where a value lies, and the values that get a mark.
struct Axis {
  double low = 0.0, high = 1.0;
  bool logarithmic = false;
  std::vector<double> ticks;

  /// Place of a value in percent from `low`; values beyond the ends lie on them.
  double at(double value) const;
};

/// From 0 to a round number not below `highest`, with about `wanted` steps of 1, 2, 2.5 or 5.
Axis linear_axis(double highest, int wanted);
/// From `low` to `high`, both above 0, marks at 1, 2, 5, 10 and so on; powers of ten where that
/// would be many.
Axis log_axis(double low, double high);
/// A mark's number, as short as it can be: "0.5", "20".
std::string tick_text(double value);

}  // namespace forerun::cli::report
