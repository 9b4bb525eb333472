#include "forerun/cli/report/document.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "forerun/cli/report/markup.h"

namespace forerun::cli::report {
namespace {

using nlohmann::json;

constexpr std::size_t kNameLimit = 36;
constexpr int kLengthLimit = 1024;  // no draft is longer; keeps a wrong document's page small

const json& field(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto it = object.find(key);
  return it == object.end() ? kNothing : *it;
}

Number number(const json& value) {
  if (!value.is_number()) return std::nullopt;
  const auto d = value.get<double>();
  return std::isfinite(d) ? Number(d) : std::nullopt;
}

Number number(const json& object, const char* key) { return number(field(object, key)); }

std::string text(const json& object, const char* key) {
  const json& value = field(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

bool is(const json& object, const char* key, bool wanted) {
  const json& value = field(object, key);
  return value.is_boolean() && value.get<bool>() == wanted;
}

// An object whose keys count something, e.g. {"1": 6.1, "2": 6.2}, in ascending order.
std::vector<std::pair<int, double>> by_number(const json& object) {
  std::vector<std::pair<int, double>> out;
  if (!object.is_object()) return out;
  for (const auto& [name, value] : object.items()) {
    int key = -1;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data(), end, key);
    const Number n = number(value);
    if (error != std::errc() || at != end || key < 0 || key > kLengthLimit || !n || *n < 0)
      continue;
    out.emplace_back(key, *n);
  }
  std::sort(out.begin(), out.end());
  return out;
}

Speed read_speed(const json& j) {
  return {number(j, "speedup_vs_none"), number(j, "tok_s"), number(j, "tau"), number(j, "outputs"),
          number(j, "rounds")};
}

Kinship read_kinship(const json& j) {
  if (text(j, "drafter") == "none") return Kinship::kPlain;
  if (is(j, "exact", false)) return Kinship::kInexact;
  if (is(j, "identical_to_none", true)) return Kinship::kIdentical;
  if (is(j, "identical_up_to_ties", true)) return Kinship::kTies;
  if (is(j, "identical_to_none", false)) return Kinship::kDifferent;
  return is(j, "exact", true) ? Kinship::kSameLaw : Kinship::kUnknown;
}

std::vector<Position> read_positions(const json& j) {
  const json &examined = field(j, "examined"), &accepted = field(j, "accepted");
  std::vector<Position> out;
  if (!examined.is_array()) return out;
  for (std::size_t i = 0; i < std::min<std::size_t>(examined.size(), kLengthLimit); ++i) {
    const bool has = accepted.is_array() && i < accepted.size();
    out.push_back({number(examined[i]), has ? number(accepted[i]) : std::nullopt});
  }
  return out;
}

// A drafter is known by its kind and the file's name: "draft-model:small.gguf".
std::string without_folders(const std::string& name) {
  const std::size_t colon = name.find(':'), slash = name.find_last_of('/');
  if (colon == std::string::npos || slash == std::string::npos || slash < colon) return name;
  if (slash + 1 == name.size()) return name;
  return name.substr(0, colon + 1) + name.substr(slash + 1);
}

// Names for charts, made longer again where two drafters would share one.
void name_for_charts(std::vector<Drafter>& drafters) {
  const auto twin = [&](const Drafter& d) {
    return std::count_if(drafters.begin(), drafters.end(), [&](const Drafter& other) {
      return without_folders(other.name) == without_folders(d.name);
    });
  };
  for (Drafter& d : drafters) {
    const std::string name = twin(d) > 1 ? d.name : without_folders(d.name);
    d.shown = name.empty() ? "n/a" : shortened(name, kNameLimit);
    if (d.plain()) d.shown = "plain decoding";
    if (d.kinship == Kinship::kInexact) d.shown += " (inexact)";
  }
}

Drafter read_drafter(const json& j, int series) {
  Drafter d;
  d.name = text(j, "drafter");
  d.kinship = read_kinship(j);
  d.series = d.plain() ? 0 : (series - 1) % kSeries + 1;
  d.speed = read_speed(j);
  const json& categories = field(j, "by_category");
  if (categories.is_object()) {
    for (const auto& [name, value] : categories.items()) {
      d.categories.push_back({name, read_speed(value)});
    }
  }
  d.positions = read_positions(j);
  d.ms_drafter = number(j, "ms_per_draft");
  d.ms_target = number(j, "ms_per_target_pass");
  d.ms_rest = number(j, "ms_rest_per_round");
  d.drafted = number(j, "drafted");
  d.draft_lengths = by_number(field(j, "draft_lengths"));
  const json& differences = field(j, "differences");
  if (!differences.is_array()) return d;
  for (const json& x : differences) {
    d.differences.push_back({number(x, "prompt"), number(x, "position"), number(x, "drafted"),
                             number(x, "plain"), number(x, "margin"), is(x, "tie", true),
                             is(x, "one_ended", true)});
  }
  return d;
}

Cost read_cost(const json& j) {
  Cost cost{text(j, "precision"), number(j, "prefix"), number(j, "bandwidth_limit_ms"), {}};
  for (const auto& [tokens, ms] : by_number(field(j, "ms"))) {
    if (tokens > 0 && ms > 0.0) cost.points.push_back({tokens, ms});
  }
  return cost;
}

Number sum(const std::vector<Position>& positions, Number Position::*which) {
  double total = 0.0;
  for (const Position& p : positions) total += (p.*which).value_or(0.0);
  return positions.empty() ? std::nullopt : Number(total);
}

}  // namespace

Number Position::share() const { return ratio(accepted, examined); }

Number Drafter::examined() const { return sum(positions, &Position::examined); }
Number Drafter::accepted() const { return sum(positions, &Position::accepted); }

Number Drafter::ms_round() const {
  if (!ms_drafter || !ms_target || !ms_rest) return std::nullopt;
  return *ms_drafter + *ms_target + *ms_rest;
}

Number Cost::ms_of_one() const {
  return !points.empty() && points[0].tokens == 1 ? Number(points[0].ms) : std::nullopt;
}

const Drafter* Report::baseline() const {
  const auto it = std::find_if(drafters.begin(), drafters.end(), [](auto& d) { return d.plain(); });
  return it == drafters.end() ? nullptr : &*it;
}

std::vector<const Drafter*> Report::speculating() const {
  std::vector<const Drafter*> out;
  for (const Drafter& d : drafters) {
    if (!d.plain()) out.push_back(&d);
  }
  return out;
}

Report read_document(const json& j) {
  Report r;
  r.version = text(j, "forerun");
  r.date = text(j, "date");
  r.cpu = text(j, "cpu");
  r.model = text(j, "model");
  r.precision = text(j, "precision");
  r.rule = text(j, "rule");
  r.command = text(j, "command");
  r.threads = number(j, "threads");
  r.temperature = number(j, "temperature");
  r.seed = number(j, "seed");
  r.prompts = number(j, "prompts");
  r.prompts_total = number(j, "prompts_total");
  const json& drafters = field(j, "drafters");
  int series = 0;
  for (const json& d : drafters.is_array() ? drafters : json::array()) {
    const bool plain = text(d, "drafter") == "none";
    r.drafters.push_back(read_drafter(d, plain ? 0 : ++series));
  }
  name_for_charts(r.drafters);
  r.cost = read_cost(field(j, "cost"));
  return r;
}

}  // namespace forerun::cli::report
