#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/provenance.h"
#include "forerun/cli/terminal.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

struct CostFlags {
  ModelFlags model;
  CostOptions cost;
  bool json = false;
};

void print_table(const CostCurve& curve, const CostFlags& f, const Model& model) {
  const double one = curve.points.front().seconds, limit = curve.memory_limit();
  std::string out = fmt::format("{:>6} {:>9} {:>9} {:>10} {:>9}\n", "tokens", "ms", "x first",
                                "x memory", "tok/s");
  for (const auto& p : curve.points) {
    out += fmt::format("{:>6} {:>9.2f} {:>9.2f} {:>10.2f} {:>9.1f}\n", p.rows, 1e3 * p.seconds,
                       p.seconds / one, p.seconds / limit,
                       static_cast<double>(p.rows * f.cost.sequences) / p.seconds);
  }
  out += fmt::format(
      "one pass after {} tokens, {} sequence{}, {}, {} threads; medians of {}\n"
      "a pass reads {:.0f} MB of weights and {:.1f} MB of cache; this memory gives {:.1f} GB/s: no "
      "pass under {:.2f} ms\n{}\n",
      f.cost.prefix, f.cost.sequences, f.cost.sequences == 1 ? "" : "s", name_of(model.precision()),
      curve.threads, f.cost.repeats, curve.weight_bytes / 1e6, curve.cache_bytes / 1e6,
      curve.bytes_per_second / 1e9, 1e3 * limit, machine().cpu);
  out += common_cache_line(curve.common_cache, "passes");
  write_out(out);
}

int run_cost(const CostFlags& f) {
  const Model model = load_model(f.model);
  CostOptions options = f.cost;
  options.go_on = [] { return !interrupted(); };
  const CostCurve curve = measure_cost(model, options);
  if (curve.points.empty()) return 130;
  if (f.json) {
    write_json(to_json(curve, options, model));
  } else {
    print_table(curve, f, model);
  }
  return curve.interrupted ? 130 : 0;
}

}  // namespace

nlohmann::json to_json(const CostCurve& curve, const CostOptions& options, const Model& model) {
  nlohmann::json ms = nlohmann::json::object();
  for (const auto& p : curve.points) ms[std::to_string(p.rows)] = 1e3 * p.seconds;
  nlohmann::json out = {{"ms", ms},
                        {"prefix", options.prefix},
                        {"sequences", options.sequences},
                        {"precision", name_of(model.precision())},
                        {"threads", curve.threads},
                        {"repeats", options.repeats},
                        {"weight_bytes", curve.weight_bytes},
                        {"cache_bytes", curve.cache_bytes},
                        {"gb_per_second", curve.bytes_per_second / 1e9},
                        {"bandwidth_limit_ms", 1e3 * curve.memory_limit()},
                        {"cpu", machine().cpu}};
  if (curve.common_cache) out["common_cache"] = *curve.common_cache;
  return out;
}

void add_cost(Command& program) {
  auto f = std::make_shared<CostFlags>();
  Command& command =
      program.add_command("cost", "Measure what checking M tokens costs against making one");
  bind_model(command, f->model);
  command.add("--prefix", f->cost.prefix, "Tokens before those that are timed",
              {.least = 0, .most = 1 << 20});
  command.add("--rows", f->cost.rows, "Comma-separated numbers of tokens of a pass",
              {.least = 1, .most = 1 << 16, .commas = true});
  command.add("--sequences", f->cost.sequences, "Sequences in one pass, each with its own prefix",
              {.least = 1, .most = 1024, .old = "--lanes"});
  command.add("--repeats", f->cost.repeats, "Passes of each size; the median counts",
              {.least = 1, .most = 10000});
  command.add("--json", f->json, "One JSON document on standard output");
  command.footer(R"(Examples:
  forerun cost -m model.gguf
  forerun cost -m model.gguf --prefix 1500 --precision f32 --json
  forerun cost -m model.gguf --rows 1 --sequences 8

'x first' is the price of checking so many tokens in units of the first line's; 'x memory' compares
with reading every weight once at the speed of this machine's memory, measured in the same run. Hosts of
virtual machines move their cores: compare runs whose threads had a common cache equally often.)");
  command.runs([f] { return run_cost(*f); });
}

}  // namespace forerun::cli
