#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forerun/cli/report/axis.h"
#include "forerun/cli/report/charts.h"
#include "forerun/cli/report/markup.h"

namespace forerun::cli::report {
namespace {

// A label fits between the curve and linear cost that lies so much above it.
constexpr double kRoom = 1.6;

struct Plane {
  Axis tokens, ms;
  std::string x(double t) const { return place(tokens.at(t)); }
  std::string y(double v) const { return place(100.0 - ms.at(v)); }
  std::string point(double t, double v) const {
    return fmt::format("{:.2f},{:.2f} ", tokens.at(t), 100.0 - ms.at(v));
  }
};

Plane plane_of(const Cost& c) {
  double low = c.points.front().ms, high = low;
  for (const CostPoint& p : c.points) {
    low = std::min(low, p.ms);
    high = std::max(high, p.ms);
  }
  if (c.ms_of_one()) high = std::max(high, *c.ms_of_one() * c.points.back().tokens);
  if (c.bandwidth_limit_ms.value_or(0.0) > 0.0) low = std::min(low, *c.bandwidth_limit_ms);
  // Room below the lowest line, for its label.
  const double room = std::max(1.4, std::pow(high / low, 0.1));
  return {log_axis(c.points.front().tokens, c.points.back().tokens),
          log_axis(low / room, high * 1.1)};
}

std::string frame(const Cost& c, const Plane& plane) {
  std::string out;
  for (const double tick : plane.ms.ticks) {
    const std::string y = plane.y(tick);
    out += fmt::format(R"(<line class="grid" x1="-14" x2="100%" y1="{}" y2="{}"/>)", y, y);
    out += fmt::format(R"(<text class="tick" x="-22" y="{}" dy="4" text-anchor="end">{}</text>)", y,
                       tick_text(tick));
  }
  out += R"(<line class="base" x1="-14" x2="100%" y1="100%" y2="100%"/>)";
  double last = -100.0;
  for (const CostPoint& p : c.points) {
    const double x = plane.tokens.at(p.tokens);
    if (x - last < 5.0) continue;  // numbers would touch
    last = x;
    out +=
        fmt::format(R"(<text class="tick" x="{}" y="100%" dy="20" text-anchor="middle">{}</text>)",
                    place(x), p.tokens);
  }
  return out + R"(<text class="tick" x="50%" y="100%" dy="40" text-anchor="middle">)" +
         "M, tokens in one pass</text>";
}

std::string curves(const Cost& c, const Plane& plane) {
  std::string measured, out;
  for (const CostPoint& p : c.points) measured += plane.point(p.tokens, p.ms);
  if (const Number one = c.ms_of_one()) {
    const int last = c.points.back().tokens;
    const std::string end = plane.point(last, *one * last);
    out += fmt::format(R"(<polygon class="saved" points="{}{}"/>)", measured, end);
    out += fmt::format(R"(<polyline class="reference" points="{}{}"/>)", plane.point(1, *one), end);
  }
  return out + fmt::format(R"(<polyline class="curve s1" points="{}"/>)", measured);
}

std::string labels(const Cost& c, const Plane& plane) {
  std::string out;
  if (const Number one = c.ms_of_one(); one && c.points.size() > 1) {
    const int last = c.points.back().tokens;
    out += fmt::format(
        R"(<text class="note" x="{}" y="{}" dx="-22" dy="4" text-anchor="end">linear cost</text>)",
        plane.x(last), plane.y(*one * last));
  }
  if (const Number limit = c.bandwidth_limit_ms; limit && *limit > 0.0) {
    out += fmt::format(
        R"(<line class="reference" x1="-14" x2="100%" y1="{0}" y2="{0}"/>)"
        R"(<text class="note" x="100%" y="{0}" dy="15" text-anchor="end">memory bandwidth: {1} ms</text>)",
        plane.y(*limit), fixed(limit, 1));
  }
  return out;
}

std::string points(const Cost& c, const Plane& plane) {
  std::string out;
  double last = -100.0;
  for (const CostPoint& p : c.points) {
    const Number times = ratio(p.ms, c.ms_of_one());
    const std::string x = plane.x(p.tokens), y = plane.y(p.ms);
    out += fmt::format(R"(<g>{}<circle class="reach" cx="{}" cy="{}" r="10"/>{}</g>)",
                       tooltip(fmt::format("{} tokens: {}, {} the time of one", p.tokens,
                                           with_unit(p.ms, 2, " ms"), with_unit(times, 2, "×"))),
                       x, y, marker(1, x, y));
    if (p.tokens == 1 || plane.tokens.at(p.tokens) - last < 8.0 || !times) continue;
    last = plane.tokens.at(p.tokens);
    out += fmt::format(
        R"(<text class="value" x="{}" y="{}" dy="{}" text-anchor="middle">{}</text>)", x, y,
        *times * kRoom < p.tokens ? -11 : 22, with_unit(times, *times < 9.95 ? 1 : 0, "×"));
  }
  return out;
}

std::string table(const Cost& c) {
  std::string out =
      "<table><thead><tr><th>M</th><th>ms a pass</th><th>ratio to M = 1</th><th>linear cost</th>"
      "<th>ms a token</th></tr></thead><tbody>\n";
  for (const CostPoint& p : c.points) {
    const bool known = c.ms_of_one().has_value();
    out += fmt::format(
        "<tr><th scope=\"row\" class=\"count\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "</tr>\n",
        p.tokens, fixed(p.ms, 2), with_unit(ratio(p.ms, c.ms_of_one()), 2, "×"),
        known ? with_unit(p.tokens, 0, "×") : "n/a", fixed(p.ms / p.tokens, 2));
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string cost_chart(const Report& r) {
  const Cost& c = r.cost;
  if (c.points.empty()) return "";
  const Plane plane = plane_of(c);
  std::string lead =
      "Milliseconds of one target pass that scores M tokens; beside each point its ratio to M = 1. "
      "Linear cost is what M passes over one token take: the room below it is what checking a "
      "draft "
      "in one pass saves. Both axes are logarithmic.";
  if (!c.precision.empty()) lead += fmt::format(" Precision {}", c.precision);
  if (c.prefix && !c.precision.empty()) lead += fmt::format(", {} tokens cached", count(c.prefix));
  if (!c.precision.empty()) lead += ".";
  return section(
      "cost", "What one target pass costs", lead,
      fmt::format(
          "<div class=\"plot\"><p class=\"unit\">ms a pass</p>"
          "<svg width=\"100%\" height=\"300\" role=\"img\" aria-label=\"Milliseconds of one "
          "target pass by the tokens it scores\">{}<svg width=\"100%\" height=\"100%\" "
          "viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">{}</svg>{}{}</svg></div>\n{}",
          frame(c, plane), curves(c, plane), labels(c, plane), points(c, plane),
          folded("Milliseconds and ratios", table(c))));
}

}  // namespace forerun::cli::report
