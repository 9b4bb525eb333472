#include "forerun/cli/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forerun/cli/report/markup.h"

namespace forerun::cli::report {
namespace {

constexpr std::size_t kPoints = 500;  // of a line: more than the page has pixels to tell apart
constexpr std::size_t kBands = 250;

std::string y_of(const CurveChart& c, double value) { return place(100.0 - c.values.at(value)); }

std::string point(const CurveChart& c, double step, double value) {
  return fmt::format("{:.2f},{:.2f} ", c.steps.at(step), 100.0 - c.values.at(value));
}

std::string frame(const CurveChart& c) {
  std::string out;
  for (const double tick : c.values.ticks) {
    const std::string y = y_of(c, tick);
    out += fmt::format(R"(<line class="grid" x1="-6" x2="100%" y1="{0}" y2="{0}"/>)"
                       R"(<text class="tick" x="-12" y="{0}" dy="4" text-anchor="end">{1}</text>)",
                       y, short_number(tick));
  }
  out += R"(<line class="base" x1="-6" x2="100%" y1="100%" y2="100%"/>)";
  for (const double tick : c.steps.ticks) {
    out +=
        fmt::format(R"(<text class="tick" x="{}" y="100%" dy="18" text-anchor="middle">{}</text>)",
                    place(c.steps.at(tick)), short_number(tick));
  }
  for (const double step : c.events) {
    out += fmt::format(R"(<line class="event" x1="{0}" x2="{0}" y1="0" y2="100%"/>)",
                       place(c.steps.at(step)));
  }
  return out;
}

// Over every stretch of steps from its smallest to its largest value.
std::string band(const CurveChart& c, const CurveChart::Curve& curve) {
  const Samples& s = curve.samples;
  const std::size_t parts = std::min(s.size(), kBands);
  std::string upper, lower;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t begin = i * s.size() / parts, end = (i + 1) * s.size() / parts;
    const auto [low, high] =
        std::minmax_element(s.begin() + static_cast<std::ptrdiff_t>(begin),
                            s.begin() + static_cast<std::ptrdiff_t>(end),
                            [](const Sample& a, const Sample& b) { return a.value < b.value; });
    upper += point(c, s[end - 1].step, high->value);
    lower = point(c, s[end - 1].step, low->value) + lower;
  }
  // The polygon has a stroke: where a stretch is one step, it has no height.
  return fmt::format(R"(<polygon class="band s{}" points="{}{}"/>)", curve.series, upper, lower);
}

std::string line(const CurveChart& c, const CurveChart::Curve& curve) {
  std::string points;
  const Samples few = curve.marked ? curve.samples : thinned(curve.samples, kPoints);
  for (const Sample& s : few) points += point(c, s.step, s.value);
  return fmt::format(R"(<polyline class="curve s{}" points="{}"/>)", curve.series, points);
}

std::string marks(const CurveChart& c, const CurveChart::Curve& curve) {
  std::string out;
  const double apart = c.height < 200 ? 4.0 : 1.5;  // percent; closer marks would touch
  double last = -100.0;
  for (const Sample& s : curve.samples) {
    const double at = c.steps.at(s.step);
    if (at - last < apart && &s != &curve.samples.back()) continue;
    last = at;
    const std::string x = place(at), y = y_of(c, s.value);
    out += fmt::format(
        R"(<g>{}<circle class="reach" cx="{}" cy="{}" r="9"/>{}</g>)",
        tooltip(fmt::format("{} after step {}: {:.4g}", curve.name, count(s.step), s.value)), x, y,
        marker(curve.series, x, y));
  }
  return out;
}

}  // namespace

std::string curve_chart(const CurveChart& c) {
  std::string lines, points;
  for (const CurveChart::Curve& curve : c.curves) {
    if (curve.samples.empty()) continue;
    lines += curve.spread ? band(c, curve) : line(c, curve);
    if (curve.marked) points += marks(c, curve);
  }
  return fmt::format(
      "<div class=\"plot\"><p class=\"unit\">{}</p>"
      "<svg width=\"100%\" height=\"{}\" role=\"img\" aria-label=\"{}\">{}"
      "<svg width=\"100%\" height=\"100%\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">"
      "{}</svg>{}</svg></div>\n",
      escape(c.unit), c.height, escape(c.spoken), frame(c), lines, points);
}

Axis falling_axis(double low, double high) {
  Axis axis = log_axis(low, high);
  if (axis.ticks.size() >= 4) return axis;
  // Less than about a decade: even steps, at places of the logarithm.
  axis.ticks.clear();
  const double step = linear_axis(axis.high - axis.low, 6).ticks.at(1);
  const double first = std::ceil(low / step) * step;
  for (int i = 0; i < 10; ++i) {
    const double tick = first + i * step;
    if (tick > axis.high) break;
    // Marks crowd together towards the top.
    const bool room = axis.ticks.empty() || axis.at(tick) - axis.at(axis.ticks.back()) >= 6.0;
    if (room) axis.ticks.push_back(tick);
  }
  return axis;
}

std::string short_number(double value) {
  return std::abs(value) >= 1000.0 ? count(value) : fmt::format("{:.4g}", value);
}

}  // namespace forerun::cli::report
