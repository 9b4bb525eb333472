#include <fmt/format.h>

#include <algorithm>

#include "forerun/cli/report/axis.h"
#include "forerun/cli/report/charts.h"
#include "forerun/cli/report/markup.h"

namespace forerun::cli::report {
namespace {

constexpr double kFew = 30;  // examined drafts below which a share is drawn hollow
constexpr std::size_t kLabels = 16;

// Position 1 at the left end, the last at the right one; a lone one in the middle.
double across(std::size_t index, std::size_t positions) {
  return positions < 2 ? 50.0 : 100.0 * static_cast<double>(index) / double(positions - 1);
}

std::string frame(std::size_t positions) {
  std::string out;
  for (int share = 0; share <= 100; share += 25) {
    const std::string y = place(100.0 - share);
    out += fmt::format(R"(<line class="{}" x1="-14" x2="100%" y1="{}" y2="{}"/>)",
                       share == 0 ? "base" : "grid", y, y);
    out += fmt::format(R"(<text class="tick" x="-22" y="{}" dy="4" text-anchor="end">{} %</text>)",
                       y, share);
  }
  const std::size_t step = (positions + kLabels - 1) / kLabels;
  for (std::size_t i = 0; i < positions; i += step) {
    out +=
        fmt::format(R"(<text class="tick" x="{}" y="100%" dy="20" text-anchor="middle">{}</text>)",
                    place(across(i, positions)), i + 1);
  }
  return out + R"(<text class="tick" x="50%" y="100%" dy="40" text-anchor="middle">)" +
         "draft position</text>";
}

// Missing shares break the line.
std::string line(const Drafter& d, std::size_t positions) {
  std::string out, points;
  const auto flush = [&] {
    if (points.empty()) return;
    out += fmt::format(R"(<polyline class="curve s{}" points="{}"/>)", d.series, points);
    points.clear();
  };
  for (std::size_t i = 0; i < d.positions.size(); ++i) {
    const Number share = d.positions[i].share();
    if (!share) {
      flush();
    } else {
      points += fmt::format("{:.2f},{:.2f} ", across(i, positions),
                            100.0 * (1.0 - std::clamp(*share, 0.0, 1.0)));
    }
  }
  flush();
  return out;
}

std::string points(const Drafter& d, std::size_t positions) {
  std::string out;
  for (std::size_t i = 0; i < d.positions.size(); ++i) {
    const Position& p = d.positions[i];
    const Number share = p.share();
    if (!share) continue;
    const std::string x = place(across(i, positions));
    const std::string y = place(100.0 * (1.0 - *share));
    out += fmt::format(
        R"(<g>{}<circle class="reach" cx="{}" cy="{}" r="10"/>{}</g>)",
        tooltip(fmt::format("{}, position {}: {} ({} kept of {} examined)", d.name, i + 1,
                            percent(share), count(p.accepted), count(p.examined))),
        x, y, marker(d.series, x, y, p.examined.value_or(0.0) < kFew));
  }
  return out;
}

std::string plot(const std::vector<const Drafter*>& drafters, std::size_t positions) {
  std::string curves, marks;
  for (const Drafter* d : drafters) {
    curves += line(*d, positions);
    marks += points(*d, positions);
  }
  return fmt::format(
      "<div class=\"plot\"><p class=\"unit\">kept of the examined</p>"
      "<svg width=\"100%\" height=\"260\" role=\"img\" aria-label=\"Share of examined drafts kept, "
      "by "
      "draft position\">{}<svg width=\"100%\" height=\"100%\" viewBox=\"0 0 100 100\" "
      "preserveAspectRatio=\"none\">{}</svg>{}</svg></div>\n",
      frame(positions), curves, marks);
}

std::string table(const std::vector<const Drafter*>& drafters, std::size_t positions) {
  std::string out = "<table><thead><tr><th>position</th>";
  for (const Drafter* d : drafters) out += fmt::format("<th>{}</th>", escape(d->shown));
  out += "</tr></thead><tbody>\n";
  for (std::size_t i = 0; i < positions; ++i) {
    out += fmt::format("<tr><th scope=\"row\" class=\"count\">{}</th>", i + 1);
    for (const Drafter* d : drafters) {
      const Position p = i < d->positions.size() ? d->positions[i] : Position{};
      out += fmt::format("<td>{} <small>{} / {}</small></td>", percent(p.share()),
                         count(p.accepted), count(p.examined));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string acceptance_chart(const Report& r) {
  std::vector<const Drafter*> drafters;
  std::size_t positions = 0;
  for (const Drafter* d : r.speculating()) {
    std::size_t known = d->positions.size();
    while (known > 0 && !d->positions[known - 1].share()) --known;
    if (known == 0) continue;
    drafters.push_back(d);
    positions = std::max(positions, known);
  }
  const std::string body =
      drafters.empty()
          ? "<p class=\"empty\">n/a: no draft was examined.</p>\n"
          : legend(drafters) + plot(drafters, positions) +
                folded("Shares with their counters (kept / examined)", table(drafters, positions));
  return section(
      "acceptance", "Acceptance by draft position",
      "Of the drafts the rule examined at a position, the share it kept. Drafts behind the "
      "first rejected one are not examined; hollow marks stand on fewer than 30.",
      body);
}

}  // namespace forerun::cli::report
