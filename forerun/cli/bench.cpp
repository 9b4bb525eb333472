#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "forerun/base/atomic_file.h"
#include "forerun/cli/explain.h"
#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/provenance.h"
#include "forerun/cli/report.h"
#include "forerun/cli/terminal.h"
#include "forerun/cli/token_images.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

struct BenchFlags {
  RunFlags run;
  ImageBench images;
  std::vector<std::string> drafters;
  std::string prompts, report;
  int repeats = 1;
  bool raw = false, json = false, verbose = false;
};

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
std::vector<Generated> run_abreast(const Model& model, const std::vector<Contestant>& field,
                                   std::size_t repeat, const std::vector<Token>& prompt,
                                   const GenerateOptions& options, std::size_t first) {
  constexpr std::size_t kTurn = 8;  // outputs
  struct Runner {
    Generation text;
    bool running = true;
  };
  Listener listener;
  listener.go_on = [] { return !interrupted(); };
  std::vector<Runner> runners;
  runners.reserve(field.size());
  for (const Contestant& who : field) {
    // Each repeat has a drafter of its own: none has seen this very text before.
    runners.push_back({{model, who.drafters[repeat], {&prompt, 1}, options, listener}});
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
                               const GenerateOptions& o) {
  const RunStatistics& s = c.all.statistics;
  const auto rounds = static_cast<double>(std::max<std::uint64_t>(s.rounds, 1));
  nlohmann::json j = cli::to_json(s);
  j.update({{"drafter", c.label},
            {"tok_s", c.all.tok_s()},
            {"seconds", c.all.seconds},
            {"speedup_vs_none", c.all.tok_s() / none.all.tok_s()},
            {"ms_per_target_pass", 1e3 * s.seconds.target / rounds},
            {"ms_per_draft", 1e3 * s.seconds.drafter / rounds},
            {"ms_rest_per_round", 1e3 * s.seconds.rest / rounds},
            {"rule", name_of(o.rule)},
            {"max_draft", o.max_draft},
            {"fixed_draft", o.fixed_draft},
            {"exact", o.exact()}});
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
  if (!o.deterministic()) return "same law (see certify)";
  if (c.differences.empty()) return "identical";
  return fmt::format("{} ({} of {} texts)", c.identical() ? "ties only" : "DIFFERENT",
                     c.differences.size(), prompts);
}

void print_table(const std::vector<Contestant>& field, const GenerateOptions& o,
                 std::size_t prompts) {
  std::string out = fmt::format("{:<28} {:>8} {:>7} {:>6} {:>9} {:>9}  {}\n", "drafter", "tok/s",
                                "ratio", "tau", "ms/pass", "ms/draft", "against none");
  for (const Contestant& c : field) {
    const auto j = contestant_json(c, field[0], o);
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
  out +=
      fmt::format("{} prompts, {} tokens each drafter at most, rule {}, temperature {}, seed {}\n",
                  prompts, none.outputs, name_of(o.rule), o.sampling.temperature, o.seed);
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
nlohmann::json document(const BenchFlags& f, const Model& model, std::size_t done,
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

int bench_text(const BenchFlags& f, const Command& command) {
  const GenerateOptions options = text_options(f.run.text, f.run.draft);
  const std::vector<Prompt> texts = read_prompts(f.prompts);
  const std::vector<std::string> names = with_baseline(f.drafters);
  std::optional<AtomicFile> report;
  if (command.given("--report")) {
    std::vector<std::string> inputs = {f.run.model.path, f.prompts};
    for (const std::string& name : names) inputs.push_back(path_of_drafter(name));
    expect_apart({{"--report", f.report}}, inputs);
    report.emplace(f.report);
  }
  const Model model = load_model(f.run.model);
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
  for (const Contestant& c : field) list.push_back(contestant_json(c, field[0], options));
  if (f.json) {
    write_json(list);
  } else {
    print_table(field, options, done);
    for (const Contestant& c : field) {
      if (f.verbose && c.draft_length) note(printable(c.label) + ": " + explain(*c.draft_length));
    }
  }
  if (report) {
    report->commit(render_report(document(f, model, done, prompts.size(), command.line(), list)));
    note(fmt::format("{}: report on {} of {} prompts", printable(f.report), done, prompts.size()));
  }
  if (done < prompts.size()) return 130;  // not where Ctrl-C came too late to leave anything out
  const bool same = std::all_of(field.begin(), field.end(), [](auto& c) { return c.identical(); });
  return same || !options.exact() ? 0 : 1;
}

int run_bench(BenchFlags& f, const Command& command) {
  std::erase(f.drafters, "");
  if (command.given("--drafters") && f.drafters.empty()) {
    throw UsageError("bench: --drafters is empty; try none,lookup");
  }
  const Makes kind = settle(f.run, command, {});
  if (kind == Makes::kTokenImages) {
    f.images.drafters = f.drafters.empty() ? std::vector<std::string>{"self"} : f.drafters;
    if (!command.given("--drafts")) f.images.drafts = {"2", "4", "8", "auto"};
    for (const char* one : {"--max-draft", "--fixed-draft"}) {
      if (command.given(one)) f.images.drafts.clear();
    }
    return bench_token_images(f.run, f.images, f.repeats, f.json);
  }
  const bool images = kind == Makes::kImages;
  if (images && command.given("--repeats")) {
    throw UsageError("--repeats is for language models and image-token models");
  }
  if (f.drafters.empty()) {
    f.drafters = images ? std::vector<std::string>{"frozen", "asd"}
                        : std::vector<std::string>{"lookup", "auto"};
  }
  if (images) {
    f.images.drafters = f.drafters;
    // One length that is named is the one that is measured.
    for (const char* one : {"--max-draft", "--fixed-draft", "--draft-length"}) {
      if (command.given(one)) f.images.drafts.clear();
    }
    return bench_images(f.run, f.images, f.json);
  }
  if (!command.given("--prompts")) {
    throw UsageError(
        fmt::format("{} writes texts: give it prompts with --prompts FILE", f.run.model.path));
  }
  return bench_text(f, command);
}

void bind_image_bench(Command& command, BenchFlags& f) {
  bind_places(command, f.run.images);
  command.group(kImageTitle);
  command.add("--drafts", f.images.drafts,
              "Drafted steps a round, always that many, one line of the table each; auto: as many "
              "as pay. With --max-draft that one alone",
              {.commas = true, .standard = "1,3,7,15,31; token by token 2,4,8,auto"});
  command.add_old("--draft-lengths", [&f](const std::string& list) {
    f.images.drafts.clear();
    std::istringstream lengths(list);
    for (std::string one; std::getline(lengths, one, ',');) {
      f.images.drafts.push_back(one == "auto" ? one : std::to_string(drafts_of_states(one)));
    }
    note("forerun: --draft-lengths is a former name that counts one more than --drafts");
  });
  command.add("--no-plain", f.images.plain, "Without plain sampling first; then there is no speed");
  bind_images(command, f.run);
}

}  // namespace

void add_bench(Command& program) {
  auto f = std::make_shared<BenchFlags>();
  f->run.text.max_tokens = 128;
  Command& command = program.add_command(
      "bench", "Compare drafters with plain decoding of texts, or plain sampling of images");
  bind_model(command, f->run.model, Makes::kBoth);
  command.group(kTextTitle);
  command.add("--prompts", f->prompts,
              "JSON lines, each with a \"prompt\" and perhaps a \"category\"", {.shows = "FILE"});
  command.add("--raw", f->raw, "Prompts as they are, without the chat format");
  bind_text(command, f->run.text, f->run.draft);
  command.group(kTextTitle);
  command.add("-v,--verbose", f->verbose, "Explain how far each drafter went, and why");
  command.add("--report", f->report, "Write the results with charts to this HTML file",
              {.shows = "FILE"});
  bind_image_bench(command, *f);
  command.group(kDraftTitle);
  command.add(
      "--drafters", f->drafters,
      "Texts: none, auto, lookup, sam, recycling, lookahead, draft-model:PATH, dflash:PATH[+lookup]"
      "[+...], tidar:FOLDER. Images: asd, frozen, self, free:FOLDER; token by token: cspd:FOLDER, "
      "self",
      {.commas = true,
       .standard = "none,lookup,auto for texts, frozen,asd for images, self token by token"});
  bind_drafting(command, f->run.draft, Makes::kBoth, "15 for texts; images: see --drafts");
  command.add("--repeats", f->repeats,
              "Times every text, or every set of images made token by token, is made; the median "
              "counts",
              {.least = 1, .most = 1000});
  command.group(kOutputTitle);
  command.add("--json", f->json, "One JSON document on standard output");
  command.footer(R"(Examples:
  forerun bench -m model.gguf --drafters none,lookup --prompts prompts.jsonl -n 128 --temp 0
  forerun bench -m model.gguf --prompts prompts.jsonl --temp 0.8 --rule shared-noise --json
  forerun bench -m model.gguf --prompts prompts.jsonl --temp 0 --report bench.html
  forerun bench -m dit --drafters frozen,asd,free:free --drafts 3,7 --count 16
  forerun bench -m mar --drafters none,cspd:draft,self --drafts 4,auto --count 8 --batch-size 1

Texts: the drafters take turns on every text, eight tokens at a time, so that they share whatever
the machine does meanwhile. With "none,none,lookup" plain decoding runs twice: how far apart the two
are is the noise of this machine, and no smaller difference means anything. Greedy and shared-noise
texts are compared token by token; a difference that is no tie fails (exit status 1).

Columns for images: efficiency, transitions for each pass of the model that had to wait for the one
before (1 is plain sampling); acceptance, share of the examined drafts that were kept; states, how
many the model scored for each transition (what a machine without idle units pays); cost, time of a
drafted state over that of a scored one; speed, wall clock of plain sampling over this.

Columns for images made token by token: tau, tokens for each pass of the model; acceptance, share of
the tested drafts that were kept; remerged, share of these whose chain had parted from the model's;
rows and calls, inner steps that the model's head computed for a token, and how many of its calls
waited for each other; worst, speed of the slowest image (they take turns, 16 tokens at a time).)");
  command.runs([f, &command] { return run_bench(*f, command); });
}

}  // namespace forerun::cli
