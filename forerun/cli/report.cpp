#include "forerun/cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "forerun/cli/report/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;
using report::field, report::number;

constexpr double kSame = 0.005;  // ratios print with two digits

struct Comparison {
  const char *name, *kind, *head, *text;
};
// From the best to the worst: the verdict of a page is that of its worst drafter.
constexpr Comparison kComparisons[] = {
    {"plain", "plain", "Plain decoding alone:", "there is no drafted text to compare."},
    {"identical", "good",
     "Identical:", "every drafted text equals plain decoding's, token by token."},
    {"ties", "good", "Identical up to ties:",
     "where a drafted text parts from plain decoding's, the target's best two tokens lie closer "
     "than the precision can tell apart."},
    {"same law", "good", "Same law:",
     "the rule is exact, so drafted texts are drawn from the target's own distribution; they are "
     "not word for word the plain ones. forerun certify tests this."},
    {"unknown", "plain", "n/a:", "the document does not say how the texts compare."},
    {"different", "bad", "Different:",
     "drafted texts part from plain decoding's where no tie explains it. An exact rule must not do "
     "that; please report it with the command below."},
    {"inexact", "warn", "Inexact:",
     "the rule does not keep the target's law; its speeds are not those of an exact rule."}};
enum : std::size_t { kPlain, kIdentical, kTies, kSameLaw, kUnknown, kDifferent, kInexact };

std::string name_of(const json& drafter) {
  const json name = field(drafter, "drafter");
  return name.is_string() ? name.get<std::string>() : std::string();
}

bool plain(const json& drafter) { return name_of(drafter) == "none"; }

std::size_t compare(const json& d) {
  if (plain(d)) return kPlain;
  if (field(d, "exact") == false) return kInexact;
  if (field(d, "identical_to_none") == true) return kIdentical;
  if (field(d, "identical_up_to_ties") == true) return kTies;
  if (field(d, "identical_to_none") == false) return kDifferent;
  return field(d, "exact") == true ? kSameLaw : kUnknown;
}

// A drafter is known by its kind and the file's name: "draft-model:small.gguf".
std::string without_folders(const std::string& name) {
  const std::size_t colon = name.find(':'), slash = name.find_last_of('/');
  if (colon == std::string::npos || slash == std::string::npos || slash < colon) return name;
  return slash + 1 == name.size() ? name : name.substr(0, colon + 1) + name.substr(slash + 1);
}

// In full where two drafters would share a short name.
std::string shown(const json& drafter, const json& all) {
  if (plain(drafter)) return "plain decoding";
  const std::string name = name_of(drafter), brief = without_folders(name);
  const auto twins = std::count_if(all.begin(), all.end(), [&](const json& other) {
    return without_folders(name_of(other)) == brief;
  });
  const std::string out = name.empty() ? "n/a" : twins > 1 ? name : brief;
  return compare(drafter) == kInexact ? out + " (inexact)" : out;
}

std::string headline(const json& drafters) {
  std::optional<double> times, plain_speed;
  std::string best;
  for (const json& d : drafters) {
    const auto ratio = number(field(d, "speedup_vs_none"));
    if (plain(d)) {
      plain_speed = number(field(d, "tok_s"));
    } else if (ratio > times) {  // no ratio is less than any
      times = ratio;
      best = d["shown"];
    }
  }
  if (!times) {
    return plain_speed ? fmt::format("Plain decoding: {:.1f} tok/s", *plain_speed)
                       : "No speed was measured";
  }
  if (*times >= 1.0 + kSame) {
    return fmt::format("{:.2f} times the speed of plain decoding, with {}", *times, best);
  }
  if (*times >= 1.0 - kSame) return best + " is as fast as plain decoding";
  return fmt::format("Nothing beats plain decoding; the best, {}, runs at {:.2f} times its speed",
                     best, *times);
}

}  // namespace

std::string render_report(const json& document) {
  json page = document.is_object() ? document : json::object();
  json drafters = json::array();
  for (const json& d : field(document, "drafters")) {
    if (d.is_object()) drafters.push_back(d);
  }
  std::size_t worst = drafters.empty() ? kUnknown : kPlain;
  for (json& d : drafters) {
    d.erase("by_prompt");  // the page shows no prompt alone
    d["shown"] = shown(d, drafters);
    d["against_plain"] = kComparisons[compare(d)].name;
    worst = std::max(worst, compare(d));
  }
  const Comparison& c = kComparisons[worst];
  page["headline"] = headline(drafters);
  page["verdict"] = {{"kind", c.kind}, {"head", c.head}, {"text", c.text}};
  page["drafters"] = std::move(drafters);
  return report::fill(report::kBenchPage, page);
}

}  // namespace forerun::cli
