#include "forerun/cli/text_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/base/atomic_file.h"
#include "forerun/cli/explain.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/provenance.h"
#include "forerun/cli/report.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

// What one drafter did on some of the prompts.
struct Tally {
  RunStatistics statistics;
  double seconds = 0.0;

  void add(const Generated& g) {
    statistics.add(g.statistics);
    seconds += g.seconds;
  }
  double tok_s() const {
    return seconds > 0 ? static_cast<double>(statistics.outputs) / seconds : 0;
  }
};

struct Contestant {
  std::string label;
  Drafter drafter;
  std::vector<Drafter> drafters;  // one for each repeat
  Tally all;
  std::map<std::string, Tally> by_category;
  std::vector<double> prompt_ratio;  // speed against plain decoding, by prompt
  std::vector<Tally> by_prompt;      // the run of median speed
  std::vector<Difference> differences;
  std::optional<DraftLengthReport> draft_length;  // of the last text
  CommonCache common_cache;                       // before each turn

  bool identical() const {
    return std::all_of(differences.begin(), differences.end(), [](auto& d) { return d.tie; });
  }
};

// The baseline is always there, and first: every ratio is against it. Named again, it runs again,
// and its ratio is what this machine's noise makes of nothing.
std::vector<std::string> with_baseline(std::vector<std::string> names) {
  const auto baseline = std::find(names.begin(), names.end(), "none");
  if (baseline != names.end()) names.erase(baseline);
  names.insert(names.begin(), "none");
  return names;
}

// The one of median speed.
Generated median_run(std::vector<Generated>& runs) {
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::nth_element(runs.begin(), middle, runs.end(), [](const Generated& a, const Generated& b) {
    return a.tokens_per_second() < b.tokens_per_second();
  });
  return std::move(*middle);
}

// Speed against plain decoding: the median over repeats of the ratio within each, so that a machine
// that slows down between repeats does not count.
double paired_ratio(const std::vector<Generated>& drafted, const std::vector<Generated>& plain) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < drafted.size(); ++i) {
    ratios.push_back(drafted[i].tokens_per_second() / plain[i].tokens_per_second());
  }
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

// The first of a drafter's repeats that is not the plain text.
void note_difference(const Model& model, Contestant& who, std::size_t index,
                     const std::vector<Token>& prompt, const Generated& plain,
                     const std::vector<Generated>& repeats, const GenerateOptions& options) {
  for (const Generated& g : repeats) {
    auto d = first_difference(model, prompt, plain.tokens, g.tokens, options,
                              [] { return !interrupted(); });
    if (!d) continue;
    d->prompt = index;
    who.differences.push_back(*d);
    return;
  }
}

// One text by every drafter, a few outputs at a time: the one with the fewest outputs is next, so
// that a machine that slows down or is busy for a moment does so for all of them at the same place
// of the text. `first` has the first turn.
std::vector<Generated> run_abreast(const Model& model, std::vector<Contestant>& field,
                                   std::size_t repeat, const std::vector<Token>& prompt,
                                   const GenerateOptions& options, std::size_t first) {
  constexpr std::size_t kTurn = 8;  // outputs
  struct Runner {
    Generation text;
    Contestant* who;
    bool running = true;
  };
  Listener listener;
  listener.go_on = [] { return !interrupted(); };
  std::vector<Runner> runners;
  runners.reserve(field.size());
  for (Contestant& who : field) {
    // Each repeat has a drafter of its own: none has seen this very text before.
    runners.push_back({{model, who.drafters[repeat], {&prompt, 1}, options, listener}, &who});
  }
  while (true) {
    Runner* shortest = nullptr;
    for (std::size_t k = 0; k < runners.size(); ++k) {
      Runner& r = runners[(k + first) % runners.size()];
      if (r.running && (shortest == nullptr || r.text.outputs() < shortest->text.outputs())) {
        shortest = &r;
      }
    }
    if (shortest == nullptr) break;
    shortest->who->common_cache.ask();
    shortest->running = shortest->text.advance(kTurn);
  }
  std::vector<Generated> out;
  out.reserve(field.size());
  for (Runner& r : runners) out.push_back(std::move(r.text.finish().front()));
  return out;
}

// False where it was interrupted.
bool run_prompt(const Model& model, std::vector<Contestant>& field, std::size_t index,
                const std::vector<Token>& prompt, const std::string& category,
                GenerateOptions options, int repeats) {
  options.request = static_cast<std::uint32_t>(index);
  std::vector<std::vector<Generated>> runs(field.size());
  for (std::size_t repeat = 0; repeat < static_cast<std::size_t>(repeats); ++repeat) {
    auto texts = run_abreast(model, field, repeat, prompt, options, index + repeat);
    if (interrupted()) return false;  // half a prompt would compare unlike things
    for (std::size_t k = 0; k < field.size(); ++k) runs[k].push_back(std::move(texts[k]));
  }
  if (options.deterministic()) {
    for (std::size_t k = 0; k < field.size(); ++k) {
      note_difference(model, field[k], index, prompt, runs[0][0], runs[k], options);
    }
    if (interrupted()) return false;
  }
  for (std::size_t k = 0; k < field.size(); ++k) {
    field[k].prompt_ratio.push_back(paired_ratio(runs[k], runs[0]));
  }
  std::vector<Generated> texts;
  texts.reserve(runs.size());
  for (auto& r : runs) texts.push_back(median_run(r));
  for (std::size_t k = 0; k < field.size(); ++k) {
    field[k].all.add(texts[k]);
    field[k].by_prompt.emplace_back().add(texts[k]);
    field[k].draft_length = texts[k].draft_length;
    field[k].by_category[category].add(texts[k]);
  }
  return true;
}

// Rounds by drafts proposed.
nlohmann::json lengths_json(const RunStatistics& s) {
  auto j = nlohmann::json::object();
  for (std::size_t k = 0; k < s.lengths.size(); ++k) {
    if (s.lengths[k] > 0) j[std::to_string(k)] = s.lengths[k];
  }
  return j;
}

nlohmann::json contestant_json(const Contestant& c, const Contestant& none,
                               const GenerateOptions& o, Precision precision) {
  const RunStatistics& s = c.all.statistics;
  const auto rounds = static_cast<double>(std::max<std::uint64_t>(s.rounds, 1));
  nlohmann::json j = cli::to_json(s);
  j.update({{"drafter", c.label},
            {"parts", c.drafter.parts()},
            {"tok_s", c.all.tok_s()},
            {"seconds", c.all.seconds},
            {"speedup_vs_none", c.all.tok_s() / none.all.tok_s()},
            {"ms_per_target_pass", 1e3 * s.seconds.target / rounds},
            {"ms_per_draft", 1e3 * s.seconds.drafter / rounds},
            {"ms_rest_per_round", 1e3 * s.seconds.rest / rounds},
            {"precision", name_of(precision)},
            {"rule", name_of(o.rule)},
            {"max_draft", o.max_draft},
            {"fixed_draft", o.fixed_draft},
            {"exact", o.exact() && c.drafter.keeps_law()}});
  if (const auto share = c.common_cache.share()) j["common_cache"] = *share;
  j["draft_lengths"] = lengths_json(s);
  j["by_prompt"] = nlohmann::json::array();
  for (std::size_t i = 0; i < c.by_prompt.size(); ++i) {
    const RunStatistics& one = c.by_prompt[i].statistics;
    j["by_prompt"].push_back({{"speedup_vs_none", c.prompt_ratio[i]},
                              {"outputs", one.outputs},
                              {"rounds", one.rounds},
                              {"seconds", c.by_prompt[i].seconds},
                              {"draft_lengths", lengths_json(one)}});
  }
  j["by_category"] = nlohmann::json::object();
  for (const auto& [name, tally] : c.by_category) {
    j["by_category"][name] = {
        {"tau", tally.statistics.tau()},
        {"outputs", tally.statistics.outputs},
        {"rounds", tally.statistics.rounds},
        {"tok_s", tally.tok_s()},
        {"speedup_vs_none", tally.tok_s() / none.by_category.at(name).tok_s()}};
  }
  if (o.deterministic()) {
    j["identical_to_none"] = c.differences.empty();
    j["identical_up_to_ties"] = c.identical();
    j["differences"] = nlohmann::json::array();
    for (const Difference& d : c.differences) j["differences"].push_back(cli::to_json(d));
  }
  return j;
}

std::string verdict(const Contestant& c, const GenerateOptions& o, std::size_t prompts) {
  if (c.drafter.none()) return "-";
  if (!o.exact()) return "INEXACT rule";
  if (!c.drafter.keeps_law()) return "INEXACT: another law";
  if (!o.deterministic()) return "same law (see certify)";
  if (c.differences.empty()) return "identical";
  return fmt::format("{} ({} of {} texts)", c.identical() ? "ties only" : "DIFFERENT",
                     c.differences.size(), prompts);
}

void print_table(const std::vector<Contestant>& field, const GenerateOptions& o,
                 std::size_t prompts, Precision precision) {
  std::string out = fmt::format("{:<28} {:>8} {:>7} {:>6} {:>9} {:>9}  {}\n", "drafter", "tok/s",
                                "ratio", "tau", "ms/pass", "ms/draft", "against none");
  for (const Contestant& c : field) {
    const auto j = contestant_json(c, field[0], o, precision);
    out += fmt::format("{:<28} {:>8.1f} {:>7.2f} {:>6.2f} {:>9.2f} {:>9.2f}  {}\n",
                       printable(c.label), c.all.tok_s(), j["speedup_vs_none"].get<double>(),
                       c.all.statistics.tau(), j["ms_per_target_pass"].get<double>(),
                       j["ms_per_draft"].get<double>(), verdict(c, o, prompts));
    for (const auto& [name, tally] : c.by_category) {
      if (c.drafter.none() || c.by_category.size() < 2) continue;
      out += fmt::format("  {:<26} {:>8.1f} {:>7.2f} {:>6.2f}\n", printable(name), tally.tok_s(),
                         tally.tok_s() / field[0].by_category.at(name).tok_s(),
                         tally.statistics.tau());
    }
    if (&c != &field[0]) {
      const auto worst = std::min_element(c.prompt_ratio.begin(), c.prompt_ratio.end());
      out += fmt::format("  slowest against none: {:.2f}, prompt {}\n", *worst,
                         worst - c.prompt_ratio.begin() + 1);
    }
    for (const Difference& d : c.differences) out += "    " + describe(d) + "\n";
  }
  const auto& none = field[0].all.statistics;
  out += fmt::format(
      "{} prompts, {} tokens each drafter at most, {}, rule {}, temperature {}, seed {}\n", prompts,
      none.outputs, name_of(precision), name_of(o.rule), o.sampling.temperature, o.seed);
  CommonCache common;
  for (const Contestant& c : field) common += c.common_cache;
  out += common_cache_line(common.share(), "turns");
  write_out(out);
}

nlohmann::json cost_document(const Model& model) {
  constexpr std::size_t kPrefix = 200, kMostRows = 32;
  CostOptions options;
  options.go_on = [] { return !interrupted(); };
  options.prefix = std::min(kPrefix, model.context() - std::min(kMostRows, model.context()));
  if (model.context() < kMostRows) return nullptr;
  const CostCurve curve = measure_cost(model, options);
  return curve.points.empty() ? nlohmann::json() : cli::to_json(curve, options, model);
}

// What render_report reads.
nlohmann::json document(const TextBench& f, const Model& model, std::size_t done,
                        std::size_t prompts, const std::string& command,
                        const nlohmann::json& drafters) {
  nlohmann::json j = run_json(f.run, model.chosen_precision());
  j.update({{"forerun", FORERUN_VERSION},
            {"date", utc_date()},
            {"cpu", machine().cpu},
            {"temperature", f.run.text.sampling.temperature},
            {"prompts", done},
            {"prompts_total", prompts},
            {"command", command},
            {"drafters", drafters},
            {"cost", cost_document(model)}});
  return j;
}

// Runs prompt by prompt and returns how many were finished.
std::size_t run_prompts(const Model& model, std::vector<Contestant>& field,
                        const std::vector<Prompt>& texts,
                        const std::vector<std::vector<Token>>& prompts,
                        const GenerateOptions& options, int repeats) {
  Progress progress;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (interrupted()) return i;
    progress.show(fmt::format("prompt {} of {}  {}", i + 1, prompts.size(),
                              printable(texts[i].category, 40)));
    if (!run_prompt(model, field, i, prompts[i], texts[i].category, options, repeats)) return i;
  }
  return prompts.size();
}

}  // namespace

int bench_texts(const TextBench& f, const Command& command) {
  const GenerateOptions options = text_options(f.run.text, f.run.draft);
  const std::vector<Prompt> texts = read_prompts(f.prompts);
  const std::vector<std::string> names = with_baseline(f.drafters);
  std::optional<AtomicFile> report;
  if (command.given("--report")) {
    std::vector<std::string> inputs = {f.run.model.path, f.prompts};
    for (const std::string& name : names) {
      for (std::string& path : paths_of_drafter(name)) inputs.push_back(std::move(path));
    }
    expect_apart({{"--report", f.report}}, inputs);
    report.emplace(f.report);
  }
  const Model model = load_model(f.run.model);
  if (report) expect_apart({{"--report", f.report}}, beside(model));
  std::vector<Contestant> field;
  for (const std::string& name : names) {
    const bool again = name == "none" && !field.empty();
    field.push_back({.label = again ? "none, again" : name,
                     .drafter = load_drafter(name, f.run.draft.precision, model)});
  }
  const auto prompts = encode_prompts(model, texts, f.raw);
  // The first passes of a process allocate and compile kernels; nobody should pay for that.
  GenerateOptions warm = options;
  warm.max_tokens = std::min(8U, options.max_tokens);
  for (Contestant& c : field) {
    generate(model, c.drafter.fresh(), prompts[0], warm, {.go_on = [] { return !interrupted(); }});
    for (int i = 0; i < f.repeats; ++i) c.drafters.push_back(c.drafter.fresh());
  }

  const std::size_t done = run_prompts(model, field, texts, prompts, options, f.repeats);
  if (done == 0) return 130;
  nlohmann::json list = nlohmann::json::array();
  for (const Contestant& c : field)
    list.push_back(contestant_json(c, field[0], options, model.precision()));
  if (f.json) {
    write_json(list);
  } else {
    print_table(field, options, done, model.precision());
    for (const Contestant& c : field) {
      if (f.verbose && c.draft_length) note(printable(c.label) + ": " + explain(*c.draft_length));
    }
  }
  if (report) {
    report->commit(render_report(document(f, model, done, prompts.size(), command.line(), list)));
    note(fmt::format("{}: report on {} of {} prompts", printable(f.report), done, prompts.size()));
  }
  if (done < prompts.size()) return 130;  // not where Ctrl-C came too late to leave anything out
  const bool same = std::all_of(field.begin(), field.end(),
                                [](auto& c) { return c.identical() || !c.drafter.keeps_law(); });
  return same || !options.exact() ? 0 : 1;
}

}  // namespace forerun::cli
