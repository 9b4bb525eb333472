#include "forerun/cli/report/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "forerun/cli/report/charts.h"
#include "forerun/cli/report/markup.h"

namespace forerun::cli::report {
namespace {

constexpr std::size_t kListed = 20;  // differences of a drafter
constexpr double kSame = 0.005;      // ratios print with two digits

std::string texts(std::size_t n) { return fmt::format("{} text{}", n, n == 1 ? "" : "s"); }

std::string against_plain(const Drafter& d) {
  const std::size_t n = d.differences.size();
  switch (d.kinship) {
    case Kinship::kPlain:
      return "the baseline";
    case Kinship::kIdentical:
      return "<span class=\"good\">identical</span>";
    case Kinship::kTies:
      return fmt::format("<span class=\"good\">identical up to ties</span> <small>({})</small>",
                         texts(n));
    case Kinship::kSameLaw:
      return "<span class=\"good\">same law</span>";
    case Kinship::kDifferent:
      return fmt::format("<span class=\"bad\">DIFFERENT</span> <small>({})</small>", texts(n));
    case Kinship::kInexact:
      return "<span class=\"warn\">INEXACT rule</span>";
    case Kinship::kUnknown:
      break;
  }
  return "n/a";
}

std::string line(std::string_view style, std::string_view head, std::string_view rest) {
  return fmt::format("<p class=\"verdict {}\"><b>{}</b> {}</p>\n", style, escape(head),
                     escape(rest));
}

// A number with its counters, or without where there are none.
std::string counted(const std::string& value, Number part, Number whole) {
  if (!part && !whole) return value;
  return fmt::format("{} <small>({} / {})</small>", value, count(part), count(whole));
}

// `name` is what a phone prints above the value, where the table's head has no room.
std::string cell(std::string_view name, std::string_view value, std::string_view style = "") {
  return fmt::format("<td data-name=\"{}\" class=\"{}\">{}</td>", name, style, value);
}

std::string row(const Drafter& d) {
  const std::string name = d.plain() ? "plain decoding" : d.name.empty() ? "n/a" : d.name;
  return fmt::format("<tr><th scope=\"row\"><span class=\"keyed\">{}<span>{}</span></span></th>",
                     key(d.series), escape(name)) +
         cell("tok/s", fixed(d.speed.tok_s, 1)) +
         cell("ratio", with_unit(d.speed.ratio, 2, "×"), "strong") +
         cell("tau (tokens / passes)",
              counted(fixed(d.speed.tau, 2), d.speed.outputs, d.speed.rounds), "counted") +
         cell("accepted (kept / examined)",
              counted(percent(ratio(d.accepted(), d.examined())), d.accepted(), d.examined()),
              "counted") +
         cell("against plain", against_plain(d)) + "</tr>\n";
}

}  // namespace

std::string headline(const Report& r) {
  const Drafter* best = nullptr;
  for (const Drafter* d : r.speculating()) {
    const bool better = !best || d->speed.ratio > best->speed.ratio;
    if (d->speed.ratio && better) best = d;
  }
  if (!best) {
    const Drafter* plain = r.baseline();
    return plain && plain->speed.tok_s
               ? fmt::format("Plain decoding: {} tok/s", fixed(plain->speed.tok_s, 1))
               : "No speed was measured";
  }
  const double times = *best->speed.ratio;
  const std::string number = fixed(times, 2);
  if (times >= 1.0 + kSame) {
    return fmt::format("{} times the speed of plain decoding, with {}", number, best->shown);
  }
  if (times >= 1.0 - kSame) return fmt::format("{} is as fast as plain decoding", best->shown);
  return fmt::format("Nothing beats plain decoding; the best, {}, runs at {} times its speed",
                     best->shown, number);
}

std::string verdict(const Report& r) {
  Kinship worst = r.drafters.empty() ? Kinship::kUnknown : Kinship::kPlain;
  std::size_t parted = 0;
  for (const Drafter& d : r.drafters) {
    worst = std::max(worst, d.kinship);
    parted += d.differences.size();
  }
  const std::string rule = r.rule.empty() ? "rule" : fmt::format("rule {}", r.rule);
  switch (worst) {
    case Kinship::kPlain:
      return line("plain", "Plain decoding alone:", "there is no drafted text to compare.");
    case Kinship::kIdentical:
      return line(
          "good", "Identical:",
          fmt::format("every drafted text equals plain decoding's, token by token ({} prompts).",
                      count(r.prompts)));
    case Kinship::kTies:
      return line(
          "good", "Identical up to ties:",
          fmt::format("{} part from plain decoding's, each where the target's best two tokens lie "
                      "closer than the precision can tell apart.",
                      texts(parted)));
    case Kinship::kSameLaw:
      return line(
          "good", "Same law:",
          fmt::format("the {} is exact, so drafted texts are drawn from the target's own "
                      "distribution; they are not word for word the plain ones. forerun certify "
                      "tests this.",
                      rule));
    case Kinship::kDifferent:
      return line(
          "bad", "Different:",
          "drafted texts part from plain decoding's where no tie explains it. An exact rule must "
          "not do that; please report it with the command below.");
    case Kinship::kInexact:
      return line(
          "warn", "Inexact:",
          fmt::format("the {} does not keep the target's law; its speeds are not those of an exact "
                      "rule.",
                      rule));
    case Kinship::kUnknown:
      break;
  }
  return line("plain", "n/a:", "the document does not say how the texts compare.");
}

std::string summary_table(const Report& r) {
  if (r.drafters.empty()) return "<p class=\"empty\">n/a: no drafter ran.</p>\n";
  std::string out =
      "<div class=\"scroll\"><table class=\"summary\"><thead><tr><th "
      "class=\"name\">drafter</th><th>tok/s</th><th>ratio</th>"
      "<th>tau (tokens / passes)</th><th>accepted (kept / examined)</th><th>against plain</th></tr>"
      "</thead><tbody>\n";
  for (const Drafter& d : r.drafters) out += row(d);
  return out + "</tbody></table></div>\n";
}

std::string differences(const Report& r) {
  std::string rows;
  for (const Drafter& d : r.drafters) {
    for (std::size_t i = 0; i < std::min(kListed, d.differences.size()); ++i) {
      const Difference& x = d.differences[i];
      rows += fmt::format(
          "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
          "<td>{}</td></tr>\n",
          escape(d.shown), count(x.prompt), count(x.position),
          x.one_ended ? "" : fixed(x.drafted, 0), x.one_ended ? "" : fixed(x.plain, 0),
          x.one_ended ? "" : fixed(x.margin, 5),
          x.one_ended ? "one text ends"
          : x.tie     ? "tie"
                      : "no tie");
    }
    if (d.differences.size() > kListed) {
      rows += fmt::format("<tr><th scope=\"row\">{}</th><td colspan=\"6\">and {} more</td></tr>\n",
                          escape(d.shown), d.differences.size() - kListed);
    }
  }
  if (rows.empty()) return "";
  return folded(
      "Where texts part from plain decoding's",
      "<table><thead><tr><th class=\"name\">drafter</th><th>prompt</th><th>token</th>"
      "<th>drafted id</th><th>plain id</th><th>margin, logits</th><th></th></tr></thead><tbody>\n" +
          rows + "</tbody></table>\n");
}

}  // namespace forerun::cli::report
