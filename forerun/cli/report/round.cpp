#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "forerun/cli/report/axis.h"
#include "forerun/cli/report/charts.h"
#include "forerun/cli/report/markup.h"

namespace forerun::cli::report {
namespace {

constexpr int kHeight = 26, kMarks = 5, kReach = 8;

struct Part {
  std::string_view name, style;
  Number Drafter::*ms;
};
constexpr std::array<Part, 3> kParts = {Part{"drafter", "p-drafter", &Drafter::ms_drafter},
                                        Part{"target", "p-target", &Drafter::ms_target},
                                        Part{"rest", "p-rest", &Drafter::ms_rest}};

std::string legend_of_parts() {
  constexpr std::array<std::string_view, 3> kDoes = {"drafter: proposes", "target: verifies",
                                                     "rest: couplings, bookkeeping"};
  std::string out = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    out += fmt::format(
        "<li><svg class=\"key\" width=\"14\" height=\"14\" aria-hidden=\"true\"><rect class=\"part "
        "{}\" "
        "x=\"1\" y=\"1\" width=\"12\" height=\"12\"/></svg>{}</li>",
        kParts[i].style, kDoes[i]);
  }
  return out + "</ul>\n";
}

std::string axis_row(const Axis& axis) {
  std::string marks, heads;
  for (const double tick : axis.ticks) {
    marks += fmt::format(R"(<text class="tick" x="{}" y="14" text-anchor="middle">{}</text>)",
                         place(axis.at(tick)), tick_text(tick));
  }
  for (const Part& p : kParts) heads += fmt::format("<span>{}</span>", p.name);
  return fmt::format(
      "<div class=\"stack-row head\"><div class=\"label\">ms a round</div>"
      "<svg class=\"bar\" width=\"100%\" height=\"20\" aria-hidden=\"true\">{}</svg>{}"
      "<span>round</span></div>\n",
      marks, heads);
}

std::string bar(const Drafter& d, const Axis& axis) {
  std::string out;
  for (const double tick : axis.ticks) {
    out += fmt::format(R"(<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>)",
                       place(axis.at(tick)), -kReach, kHeight + kReach);
  }
  double left = 0.0;
  for (const Part& p : kParts) {
    const Number ms = d.*p.ms;
    if (!ms || *ms <= 0.0) continue;
    const double right = left + *ms;
    out += fmt::format(
        R"(<rect class="part {}" x="{}" y="4" width="{}" height="{}">{}</rect>)", p.style,
        place(axis.at(left)), place(axis.at(right) - axis.at(left)), kHeight - 8,
        tooltip(fmt::format("{}, {}: {} a round, {}", d.name, p.name, with_unit(ms, 3, " ms"),
                            percent(ratio(ms, d.ms_round())))));
    left = right;
  }
  return fmt::format("<svg class=\"bar\" width=\"100%\" height=\"{}\" role=\"img\">{}</svg>",
                     kHeight, out);
}

std::string row(const Drafter& d, const Axis& axis) {
  std::string cells;
  for (const Part& p : kParts) {
    cells += fmt::format("<span><i>{}</i>{} <small>{}</small></span>", p.name, fixed(d.*p.ms, 2),
                         percent(ratio(d.*p.ms, d.ms_round())));
  }
  return fmt::format(
      "<div class=\"stack-row\"><div class=\"label wraps\" title=\"{}\">{}<span>{}</span></div>{}{}"
      "<span class=\"strong\"><i>round</i>{}</span></div>\n",
      escape(d.name), key(d.series), escape(d.shown), bar(d, axis), cells, fixed(d.ms_round(), 2));
}

}  // namespace

std::string round_chart(const Report& r) {
  double longest = 0.0;
  for (const Drafter& d : r.drafters) longest = std::max(longest, d.ms_round().value_or(0.0));
  const Axis axis = linear_axis(longest, kMarks);
  std::string body = legend_of_parts();
  body += "<div class=\"stacks\">\n" + axis_row(axis);
  for (const Drafter& d : r.drafters) body += row(d, axis);
  return section(
      "rounds", "Where the time of a round goes",
      "Milliseconds of one round, which has one target pass; a round emits tau tokens, so a "
      "longer round can still be the faster one.",
      r.drafters.empty() ? "<p class=\"empty\">n/a: no drafter ran.</p>\n" : body + "</div>\n");
}

}  // namespace forerun::cli::report
