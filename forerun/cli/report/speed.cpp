#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "forerun/cli/report/axis.h"
#include "forerun/cli/report/charts.h"
#include "forerun/cli/report/markup.h"

namespace forerun::cli::report {
namespace {

constexpr int kMarks = 6;

// Pixels of a row; `bridge` leads the axis' lines over the gap to the group above.
struct RowShape {
  int height, bridge;
};
constexpr RowShape kOverall{34, 10}, kSingle{22, 6}, kFew{22, 14}, kMany{16, 13};

// One category with what every drafter did on it.
struct Group {
  std::string name;
  std::vector<std::pair<const Drafter*, Speed>> bars;
  double best = -1.0;  // ratio
};

// Where speculation pays most comes first.
std::vector<Group> groups_of(const std::vector<const Drafter*>& drafters) {
  std::map<std::string, Group> by_name;
  for (const Drafter* d : drafters) {
    for (const Category& c : d->categories) {
      Group& g = by_name[c.name];
      g.name = c.name;
      g.bars.emplace_back(d, c.speed);
      g.best = std::max(g.best, c.speed.ratio.value_or(-1.0));
    }
  }
  std::vector<Group> out;
  out.reserve(by_name.size());
  for (auto& [name, group] : by_name) out.push_back(std::move(group));
  std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.best > b.best; });
  return out;
}

Axis axis_of(const Report& r) {
  double highest = 1.1;
  for (const Drafter& d : r.drafters) {
    highest = std::max(highest, d.speed.ratio.value_or(0.0));
    for (const Category& c : d.categories) highest = std::max(highest, c.speed.ratio.value_or(0.0));
  }
  return linear_axis(highest, kMarks);
}

std::string lines(const Axis& axis, const RowShape& row) {
  std::string out;
  for (const double tick : axis.ticks) {
    out += fmt::format(R"(<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>)",
                       place(axis.at(tick)), -row.bridge, row.height);
  }
  return out;
}

std::string axis_row(const Axis& axis) {
  std::string marks;
  for (const double tick : axis.ticks) {
    if (std::abs(tick - 1.0) < 1e-9) continue;
    // A number so near would run into the label of plain decoding.
    if (std::abs(axis.at(tick) - axis.at(1.0)) < 9.0) continue;
    marks += fmt::format(R"(<text class="tick" x="{}" y="28" text-anchor="middle">{}×</text>)",
                         place(axis.at(tick)), tick_text(tick));
  }
  const std::string one = place(axis.at(1.0));
  marks +=
      fmt::format(R"(<text class="tick strong" x="{0}" y="14" text-anchor="middle">plain</text>)"
                  R"(<text class="tick strong" x="{0}" y="28" text-anchor="middle">1×</text>)",
                  one);
  return fmt::format(
      "<div class=\"group head\"><div class=\"label\"></div><div class=\"bar-row\"><span></span>"
      "<svg class=\"bar\" width=\"100%\" height=\"34\" aria-hidden=\"true\">{}</svg>"
      "<span>ratio</span><span>tok/s</span><span>tau</span></div></div>\n",
      marks);
}

std::string bar_row(const Drafter& d, const Speed& s, std::string_view where, const Axis& axis,
                    const RowShape& row) {
  const int margin = row.height / 6;
  std::string bar;
  if (s.ratio) {
    bar = fmt::format(R"(<rect class="fill s{}{}" x="0" y="{}" height="{}" width="{}" rx="1.5"/>)",
                      d.series, *s.ratio < 0.995 ? " slower" : "", margin, row.height - 2 * margin,
                      place(axis.at(*s.ratio)));
  } else {
    bar = fmt::format(R"(<text class="tick" x="6" y="{}">n/a</text>)", row.height / 2 + 4);
  }
  const std::string tip =
      fmt::format("{}, {}: {} plain decoding's speed, {} tok/s, tau {} ({} tokens / {} passes)",
                  d.name, where, with_unit(s.ratio, 2, "×"), fixed(s.tok_s, 1), fixed(s.tau, 2),
                  count(s.outputs), count(s.rounds));
  const std::string one = place(axis.at(1.0));
  return fmt::format(
      "<div class=\"bar-row\">{}<svg class=\"bar\" width=\"100%\" height=\"{}\" role=\"img\">{}{}{}"
      "<line class=\"one\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/></svg>"
      "<span class=\"strong\">{}</span><span>{}</span><span>{}</span></div>\n",
      key(d.series), row.height, tooltip(tip), lines(axis, row), bar, one, one, -row.bridge,
      row.height, with_unit(s.ratio, 2, "×"), fixed(s.tok_s, 1), fixed(s.tau, 2));
}

std::string overall(const Report& r, const Axis& axis) {
  std::string out = "<h3>All prompts</h3>\n<div class=\"bars\">\n" + axis_row(axis);
  for (const Drafter& d : r.drafters) {
    out += fmt::format(
        "<div class=\"group\"><div class=\"label wraps\" title=\"{}\"><span>{}</span></div>"
        "<div>{}</div></div>\n",
        escape(d.name), escape(d.shown), bar_row(d, d.speed, "all prompts", axis, kOverall));
  }
  return out + "</div>\n";
}

std::string by_category(const std::vector<Group>& groups, const Axis& axis, bool many) {
  const bool paired =
      std::any_of(groups.begin(), groups.end(), [](const Group& g) { return g.bars.size() > 1; });
  std::string out = fmt::format("<div class=\"bars by-category{}{}\">\n{}", many ? " tight" : "",
                                paired ? " paired" : "", axis_row(axis));
  for (const Group& g : groups) {
    const std::string name = g.name.empty() ? "(no category)" : g.name;
    std::string rows;
    for (const auto& [drafter, speed] : g.bars) {
      RowShape shape = many ? kMany : paired ? kFew : kSingle;
      if (!rows.empty()) shape.bridge = 0;
      rows += bar_row(*drafter, speed, name, axis, shape);
    }
    out += fmt::format(
        "<div class=\"group\"><div class=\"label\" title=\"{0}\">{0}</div><div>{1}</div></div>\n",
        escape(name), rows);
  }
  return out + "</div>\n";
}

std::string table_row(std::string_view category, const Drafter& d, const Speed& s) {
  return fmt::format(
      "<tr><th scope=\"row\">{}</th><td class=\"name\">{}</td><td>{}</td><td>{}</td><td>{}</td>"
      "<td>{} / {}</td></tr>\n",
      escape(category), escape(d.shown), with_unit(s.ratio, 2, "×"), fixed(s.tok_s, 1),
      fixed(s.tau, 2), count(s.outputs), count(s.rounds));
}

std::string table(const Report& r, const std::vector<Group>& groups) {
  std::string out =
      "<table><thead><tr><th>category</th><th class=\"name\">drafter</th><th>ratio</th>"
      "<th>tok/s</th><th>tau</th><th>tokens / passes</th></tr></thead><tbody>\n";
  for (const Group& g : groups) {
    if (const Drafter* plain = r.baseline()) {
      for (const Category& c : plain->categories) {
        if (c.name == g.name) out += table_row(g.name, *plain, c.speed);
      }
    }
    for (const auto& [drafter, speed] : g.bars) out += table_row(g.name, *drafter, speed);
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string speed_chart(const Report& r) {
  constexpr std::size_t kManyDrafters = 4;
  const std::vector<const Drafter*> drafters = r.speculating();
  const Axis axis = axis_of(r);
  const std::vector<Group> groups = groups_of(drafters);
  std::string body = overall(r, axis);
  if (groups.size() > 1) {
    body += "<h3>By category</h3>\n";
    if (drafters.size() > 1) body += legend(drafters);
    body += by_category(groups, axis, drafters.size() >= kManyDrafters);
    body += folded("Every category with its counters", table(r, groups));
  }
  return section("speed", "Speed against plain decoding",
                 "Tokens per second divided by those of plain decoding on the same prompts. Bars "
                 "past the line at 1× are faster; pale ones are slower. tau is the mean number of "
                 "tokens a target pass emits.",
                 body);
}

}  // namespace forerun::cli::report
