#include <fmt/format.h>

#include <algorithm>

#include "forerun/cli/report/charts.h"
#include "forerun/cli/report/markup.h"

namespace forerun::cli::report {
namespace {

constexpr int kLabels = 9;

std::string histogram(const Drafter& d, int longest, double highest) {
  double rounds = 0.0;
  for (const auto& [length, n] : d.draft_lengths) rounds += n;
  const double slot = 100.0 / (longest + 1);
  std::string out = R"(<line class="base" x1="0" x2="100%" y1="100%" y2="100%"/>)";
  const int step = (longest + kLabels) / kLabels;
  for (int i = 0; i <= longest; i += step) {
    out +=
        fmt::format(R"(<text class="tick" x="{}" y="100%" dy="17" text-anchor="middle">{}</text>)",
                    place((i + 0.5) * slot), i);
  }
  for (const auto& [length, n] : d.draft_lengths) {
    const Number share = ratio(n, rounds);
    const double height = 100.0 * ratio(share, highest).value_or(0.0);
    out += fmt::format(R"(<rect class="fill s{}" x="{}" y="{}" width="{}" height="{}">{}</rect>)",
                       d.series, place((length + 0.12) * slot), place(100.0 - height),
                       place(0.76 * slot), place(height),
                       tooltip(fmt::format("{}: length {} in {} rounds, {}", d.name, length,
                                           count(n), percent(share))));
  }
  return fmt::format(
      "<figure class=\"small\"><figcaption title=\"{}\">{}<span>{}</span><small>{} rounds</small>"
      "</figcaption><svg width=\"100%\" height=\"110\" role=\"img\">"
      "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"0\" y2=\"0\"/>"
      "<text class=\"tick\" x=\"100%\" y=\"0\" dy=\"-4\" "
      "text-anchor=\"end\">{}</text>{}</svg></figure>\n",
      escape(d.name), key(d.series), escape(d.shown), count(rounds), percent(highest), out);
}

double highest_share(const Drafter& d) {
  double rounds = 0.0, most = 0.0;
  for (const auto& [length, n] : d.draft_lengths) {
    rounds += n;
    most = std::max(most, n);
  }
  return ratio(most, rounds).value_or(0.0);
}

}  // namespace

std::string lengths_chart(const Report& r) {
  int longest = 1;
  double highest = 0.0;
  for (const Drafter& d : r.drafters) {
    if (d.draft_lengths.empty()) continue;
    longest = std::max(longest, d.draft_lengths.back().first);
    highest = std::max(highest, highest_share(d));
  }
  if (highest <= 0.0) return "";
  std::string body = "<div class=\"smalls\">\n";
  for (const Drafter& d : r.drafters) {
    if (highest_share(d) > 0.0) body += histogram(d, longest, highest);
  }
  return section("lengths", "Draft lengths the controller chose",
                 "Share of the rounds by draft length in tokens; 0 is a round without a draft.",
                 body + "</div>\n");
}

}  // namespace forerun::cli::report
