#include "forerun/cli/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "forerun/cli/interrupt.h"

namespace forerun::cli {
namespace {

Precision precision_of(const std::string& name) {
  if (name == "auto") return machine().int8 ? Precision::kInt8 : Precision::kF32;
  return *precision_from_name(name);
}

const CLI::IsMember kPrecisions({"auto", "f32", "bf16", "int8"});

}  // namespace

void bind(CLI::App& app, ModelFlags& f) {
  app.add_option("-m,--model", f.path, "GGUF file, or Hugging Face folder")->required();
  app.add_option(
         "--precision", f.precision,
         "What weights and activations are computed in; auto: int8 where the processor has the "
         "instructions, else f32")
      ->check(kPrecisions)
      ->capture_default_str();
  app.add_option("--threads", f.threads, "CPU threads, 0 = one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

Model load_model(const ModelFlags& f) {
  set_threads(f.threads);
  return Model::load(f.path, precision_of(f.precision));
}

void bind(CLI::App& app, SamplingFlags& f) {
  GenerateOptions& o = f.options;
  app.add_option("-n,--max-tokens", o.max_tokens, "Tokens to generate at most")
      ->check(CLI::Range(1U, 1U << 20))
      ->capture_default_str();
  app.add_option("--temp", o.sampling.temperature, "Temperature, 0 = greedy")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  app.add_option("--top-k", o.sampling.top_k, "Keep the k likeliest tokens, 0 = all")
      ->capture_default_str();
  app.add_option("--top-p", o.sampling.top_p, "Keep the likeliest tokens that make up p")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--min-p", o.sampling.min_p, "Drop tokens below this share of the likeliest one")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--rule", f.rule,
                 "What decides on drafts. Exact: maximal, match, shared-noise. INEXACT, for "
                 "comparison: typical, ratio-on-search")
      ->check(CLI::IsMember({"maximal", "match", "shared-noise", "typical", "ratio-on-search"}))
      ->capture_default_str();
  app.add_option("--max-draft", o.max_draft, "Drafted tokens a round at most, 0 = plain decoding")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_flag("--fixed-draft", o.fixed_draft,
               "Always draft that many, instead of as many as pay on this machine and text");
  app.add_option("--seed", o.seed,
                 "Same seed, same text (with a drafting model under maximal: with --fixed-draft)")
      ->capture_default_str();
  app.add_option("--stop", o.stop, "Text that ends the answer; may be given several times");
  app.add_flag("--ignore-end", o.ignore_end, "Go on behind end-of-sequence tokens");
}

GenerateOptions resolve(const SamplingFlags& f) {
  GenerateOptions o = f.options;
  o.rule = *rule_from_name(f.rule);
  return o;
}

void bind(CLI::App& app, DrafterFlags& f) {
  app.add_option("--drafter", f.name,
                 "none, lookup, draft-model:PATH, dflash:PATH or dflash:PATH+lookup")
      ->capture_default_str();
  bind_draft_precision(app, f.precision);
}

void bind_draft_precision(CLI::App& app, std::string& precision) {
  app.add_option("--draft-precision", precision, "Precision of a drafting model")
      ->check(kPrecisions)
      ->capture_default_str();
}

Drafter load_drafter(const std::string& name, const std::string& precision, const Model& target) {
  return Drafter::load(name, target, precision_of(precision));
}

std::vector<Prompt> read_prompts(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw UsageError(fmt::format("cannot open the prompts file '{}'", path));
  std::vector<Prompt> out;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto j = nlohmann::json::parse(line, nullptr, false);
    const bool good = j.is_object() && j.contains("prompt") && j["prompt"].is_string();
    if (!good) {
      throw UsageError(fmt::format(
          "{}:{}: expected a JSON object with a string \"prompt\" on every line", path, number));
    }
    const bool has_category = j.contains("category") && j["category"].is_string();
    out.push_back({j["prompt"].get<std::string>(),
                   has_category ? j["category"].get<std::string>() : std::string()});
  }
  if (out.empty()) throw UsageError(fmt::format("the prompts file '{}' holds no prompt", path));
  return out;
}

std::vector<std::vector<Token>> encode_prompts(const Model& model,
                                               const std::vector<Prompt>& prompts, bool raw) {
  std::vector<std::vector<Token>> out;
  for (const Prompt& p : prompts) {
    const Message turn{"user", p.text};
    out.push_back(raw ? model.encode(p.text) : model.encode_chat({&turn, 1}));
    if (out.back().size() >= model.context()) {
      throw UsageError(
          fmt::format("prompt {} has {} tokens, the model's context holds {}: shorten it",
                      out.size(), out.back().size(), model.context()));
    }
  }
  return out;
}

Listener counting(Progress& progress, std::size_t most) {
  Listener listener;
  listener.go_on = [] { return !interrupted(); };
  listener.on_round = [&progress, most, done = std::size_t{0},
                       last = std::uint64_t{0}](const RunStatistics& s) mutable {
    if (s.outputs < last) last = 0;  // the next text
    done += s.outputs - last;
    last = s.outputs;
    progress.show(fmt::format("{} of {} tokens", std::min(done, most), most));
  };
  return listener;
}

nlohmann::json to_json(const RunStatistics& s) {
  return {{"tau", s.tau()},
          {"rounds", s.rounds},
          {"outputs", s.outputs},
          {"drafted", s.drafted},
          {"lengths", s.lengths},
          {"examined", s.examined},
          {"accepted", s.accepted},
          {"acceptance_by_position", s.acceptance_by_position()},
          {"seconds_drafter", s.seconds.drafter},
          {"seconds_target", s.seconds.target},
          {"seconds_rest", s.seconds.rest}};
}

nlohmann::json to_json(const Difference& d) {
  nlohmann::json j = {{"prompt", d.prompt},   {"position", d.position},
                      {"drafted", d.drafted}, {"one_ended", d.one_ended},
                      {"plain", d.plain},     {"margin", d.margin},
                      {"tie", d.tie}};
  if (d.one_ended) j["margin"] = nullptr;
  return j;
}

nlohmann::json to_json(const Certificate& c) {
  nlohmann::json differences = nlohmann::json::array();
  for (const Difference& d : c.differences) differences.push_back(to_json(d));
  return {{"z", c.report.z},
          {"ks_p", c.report.ks_p},
          {"ks_statistic", c.report.ks_statistic},
          {"tokens", c.tokens},
          {"drafted_tokens", c.report.drafted},
          {"z_p", c.report.z_p},
          {"forbidden", c.report.forbidden},
          {"edges", c.edges},
          {"exact", c.exact},
          {"deterministic", c.deterministic},
          {"tie_margin", c.tie_margin},
          {"differences", differences},
          {"verdict", c.verdict()}};
}

std::string tau_text(const RunStatistics& s) {
  return fmt::format("tau {:.2f} ({} tokens / {} passes)", s.tau(), s.outputs, s.rounds);
}

std::string describe(const Difference& d) {
  if (d.one_ended) {
    return fmt::format("prompt {}: one text ends at token {}", d.prompt, d.position);
  }
  return fmt::format("prompt {}, token {}: {} instead of {}, margin {:.2g} logits{}", d.prompt,
                     d.position, d.drafted, d.plain, d.margin, d.tie ? " (a tie)" : "");
}

std::string summary(const Certificate& c) {
  const std::size_t ties = static_cast<std::size_t>(
      std::count_if(c.differences.begin(), c.differences.end(), [](auto& d) { return d.tie; }));
  std::string law = fmt::format("{} of them drafted: z = {:+.2f}, KS p = {:.2g}", c.report.drafted,
                                c.report.z, c.report.ks_p);
  if (c.report.forbidden > 0) law += fmt::format(", {} forbidden outputs", c.report.forbidden);
  if (c.edges > 0) law += fmt::format(", {} at the edge of a limit left out", c.edges);
  if (!c.deterministic) {
    return fmt::format("{}: {} tokens scored again, {}", c.verdict(), c.tokens, law);
  }
  return fmt::format(
      "{}: {} tokens scored again by plain passes, {} ties within {} logits, {} differences{}",
      c.verdict(), c.tokens, ties, c.tie_margin, c.differences.size() - ties,
      c.report.passed() ? "" : "; " + law);
}

}  // namespace forerun::cli
