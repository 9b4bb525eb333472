#pragma once

#include <string>
#include <vector>

#include "forerun/cli/report/axis.h"
#include "forerun/cli/report/training_log.h"

namespace forerun::cli::report {

/// One chart over the steps of a run.
struct CurveChart {
  struct Curve {
    Samples samples;
    int series = 1;
    bool marked = false;  ///< few points, each with a marker and a tooltip
    bool spread = false;  ///< the band between the smallest and largest of neighbours, no line
    std::string name;     ///< for tooltips
  };
  std::string unit;    ///< above the axis
  std::string spoken;  ///< what it shows, for those who cannot see it
  Axis steps, values;
  std::vector<Curve> curves;
  std::vector<double> events;  ///< steps with a dotted line
  int height = 300;            ///< px
};

/// HTML with the chart in SVG.
std::string curve_chart(const CurveChart& chart);

/// An axis for positive values that fall or rise by a share: logarithmic, with enough marks.
Axis falling_axis(double low, double high);

/// A number for a mark or a table: "12,500", "0.0006".
std::string short_number(double value);

}  // namespace forerun::cli::report
