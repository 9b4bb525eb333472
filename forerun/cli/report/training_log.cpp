#include "forerun/cli/report/training_log.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace forerun::cli::report {
namespace {

using nlohmann::json;

const json& field(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto it = object.find(key);
  return it == object.end() ? kNothing : *it;
}

Number number(const json& object, const char* key) {
  const json& value = field(object, key);
  if (!value.is_number()) return std::nullopt;
  const auto d = value.get<double>();
  return std::isfinite(d) ? Number(d) : std::nullopt;
}

std::string text(const json& object, const char* key) {
  const json& value = field(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string dumped(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

void add(Samples& to, double step, Number value) {
  if (value && (to.empty() || to.back().step < step)) to.push_back({step, *value});
}

void add_figures(TrainingLog& log, const json& figures, double step,
                 Samples TrainingLog::Curves::*which) {
  if (!figures.is_object()) return;
  for (const auto& [name, unused] : figures.items()) {
    auto it = std::find_if(log.figures.begin(), log.figures.end(),
                           [&, &wanted = name](const auto& c) { return c.name == wanted; });
    if (it == log.figures.end()) it = log.figures.insert(it, {name, {}, {}});
    add((*it).*which, step, number(figures, name.c_str()));
  }
}

void read_run(TrainingLog& log, const json& run) {
  const json& options = field(run, "options");
  const json& surroundings = field(run, "surroundings");
  const json& provenance = field(run, "provenance");
  log.objective = text(options, "objective");
  log.steps = number(options, "steps");
  log.batch = number(options, "batch");
  log.clip = number(options, "clip");
  log.ranks = number(surroundings, "ranks");
  log.threads = number(surroundings, "threads");
  log.command = text(provenance, "command");
  log.version = text(provenance, "forerun");
  if (provenance.is_object() && !provenance.empty()) log.provenance = dumped(provenance, 2);
  for (const json* object : {&options, &surroundings}) {
    if (!object->is_object()) continue;
    for (const auto& [key, value] : object->items()) {
      if (key == "objective") continue;
      log.options.emplace_back(key,
                               value.is_string() ? value.get<std::string>() : dumped(value, -1));
    }
  }
}

void read_step(TrainingLog& log, const json& line, double step) {
  add(log.loss.trained, step, number(line, "loss"));
  add(log.smoothed, step, number(line, "smoothed_loss"));
  add(log.rate, step, number(line, "learning_rate"));
  add(log.norm, step, number(line, "gradient_norm"));
  add(log.tokens_per_second, step, number(line, "tokens_per_second"));
  add(log.gflops_per_second, step, number(line, "gflops_per_second"));
  add_figures(log, field(line, "figures"), step, &TrainingLog::Curves::trained);
  log.epoch = number(line, "epoch");
  log.tokens = number(line, "tokens");
  log.seconds = number(line, "seconds");
}

void read_line(TrainingLog& log, const json& line) {
  if (!line.is_object()) return;
  if (line.contains("run")) read_run(log, line["run"]);
  if (const Number step = number(field(line, "resumed"), "step")) log.resumed.push_back(*step);
  if (const Number step = number(line, "step")) read_step(log, line, *step);
  const json& held_out = field(line, "held_out");
  if (const Number step = number(held_out, "step")) {
    add(log.loss.held_out, *step, number(held_out, "loss"));
    add_figures(log, field(held_out, "figures"), *step, &TrainingLog::Curves::held_out);
  }
}

}  // namespace

TrainingLog read_training_log(std::string_view jsonl) {
  TrainingLog log;
  while (!jsonl.empty()) {
    const std::size_t end = std::min(jsonl.find('\n'), jsonl.size());
    read_line(log, json::parse(jsonl.substr(0, end), nullptr, /*allow_exceptions=*/false));
    jsonl.remove_prefix(std::min(end + 1, jsonl.size()));
  }
  return log;
}

Samples thinned(const Samples& samples, std::size_t most) {
  if (samples.size() <= most) return samples;
  Samples out;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t begin = i * samples.size() / most, end = (i + 1) * samples.size() / most;
    double sum = 0.0;
    for (std::size_t k = begin; k < end; ++k) sum += samples[k].value;
    out.push_back({samples[end - 1].step, sum / static_cast<double>(end - begin)});
  }
  return out;
}

Number median(const Samples& samples) {
  if (samples.empty()) return std::nullopt;
  std::vector<double> values;
  for (const Sample& s : samples) values.push_back(s.value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace forerun::cli::report
