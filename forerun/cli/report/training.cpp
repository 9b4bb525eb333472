#include "forerun/cli/report/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "forerun/base/json_text.h"
#include "forerun/cli/report/page.h"

namespace forerun::cli {
namespace {

using nlohmann::json;
using report::field, report::number;

constexpr std::size_t kPoints = 300;  // of a curve

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> samples;  // step, value; ascending steps
};
using Curves = std::vector<Curve>;

Curve& named(Curves& curves, const std::string& name) {
  const auto it =
      std::find_if(curves.begin(), curves.end(), [&](const Curve& c) { return c.name == name; });
  return it == curves.end() ? curves.emplace_back(Curve{name, {}}) : *it;
}

void add(Curves& to, const std::string& name, double step, const json& value) {
  const auto n = number(value);
  if (!n) return;
  auto& samples = named(to, name).samples;
  if (samples.empty() || samples.back().first < step) samples.emplace_back(step, *n);
}

void add_figures(Curves& to, double step, const json& figures) {
  if (!figures.is_object()) return;
  for (const auto& [name, value] : figures.items()) add(to, name, step, value);
}

// Six digits: more than a page can show.
double rounded(double value) {
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);  // which reads tiny ones too
}

json to_json(const Curve& curve) {
  const auto& samples = curve.samples;
  const std::size_t parts = std::min(samples.size(), kPoints);
  json points = json::array();
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t begin = i * samples.size() / parts, end = (i + 1) * samples.size() / parts;
    double sum = 0.0, low = samples[begin].second, high = low;
    for (std::size_t k = begin; k < end; ++k) {
      sum += samples[k].second / static_cast<double>(end - begin);
      low = std::min(low, samples[k].second);
      high = std::max(high, samples[k].second);
    }
    points.push_back({samples[end - 1].first, rounded(sum), rounded(low), rounded(high)});
  }
  std::vector<double> values;
  for (const auto& [step, value] : samples) values.push_back(value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return {{"name", curve.name},
          {"last", samples.back().second},
          {"median", *middle},
          {"points", std::move(points)}};
}

json to_json(const Curves& curves) {
  json out = json::array();
  for (const Curve& c : curves) out.push_back(to_json(c));
  return out;
}

struct Log {
  Curves series, figures, held_out;
  json page = {{"run", nullptr}, {"resumed", json::array()}};
};

void read_line(Log& log, const json& line) {
  if (const json run = field(line, "run"); run.is_object()) log.page["run"] = run;
  if (const auto step = number(field(field(line, "resumed"), "step"))) {
    log.page["resumed"].push_back(*step);
  }
  if (const auto step = number(field(line, "step"))) {
    for (const char* name : {"loss", "smoothed_loss", "learning_rate", "gradient_norm",
                             "tokens_per_second", "gflops_per_second"}) {
      add(log.series, name, *step, field(line, name));
    }
    add_figures(log.figures, *step, field(line, "figures"));
    for (const char* name : {"epoch", "tokens", "seconds"}) log.page[name] = field(line, name);
  }
  const json held_out = field(line, "held_out");
  if (const auto step = number(field(held_out, "step"))) {
    add(log.held_out, "loss", *step, field(held_out, "loss"));
    add_figures(log.held_out, *step, field(held_out, "figures"));
  }
}

}  // namespace

std::string render_training(std::string_view text) {
  Log log;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const Result<json> line = parse_json(text.substr(0, end))) read_line(log, *line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  log.page["series"] = to_json(log.series);
  log.page["figures"] = to_json(log.figures);
  log.page["held_out"] = to_json(log.held_out);
  return report::fill(report::kTrainingPage, log.page);
}

}  // namespace forerun::cli
