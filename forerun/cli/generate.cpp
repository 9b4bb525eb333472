#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/explain.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"

namespace forerun::cli {
namespace {

struct Flags {
  ModelFlags model;
  DrafterFlags drafter;
  SamplingFlags sampling;
  std::string prompt, prompt_file, system;
  bool raw = false, json = false, certify = false, verbose = false;
};

std::string read_all(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(path, std::ios::binary);
  in.peek();  // a folder opens, but cannot be read
  if (in.bad() || !in.is_open())
    throw UsageError(fmt::format("cannot open the prompt file '{}'", path));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Token> prompt_tokens(const Model& model, const Flags& f) {
  const std::string text = f.prompt_file.empty() ? f.prompt : read_all(f.prompt_file);
  if (f.raw) return model.encode(text);
  std::vector<Message> turns;
  if (!f.system.empty()) turns.push_back({"system", f.system});
  turns.push_back({"user", text});
  return model.encode_chat(turns);
}

nlohmann::json document(const Flags& f, const Generated& g, std::size_t prompt_tokens,
                        std::string_view precision) {
  nlohmann::json j = to_json(g.statistics);
  j.update({{"text", g.text},
            {"tokens", g.tokens},
            {"target_passes", g.statistics.passes + static_cast<std::uint64_t>(g.prefill_passes)},
            {"seconds", g.seconds},
            {"tok_s", g.tokens_per_second()},
            {"prompt_tokens", prompt_tokens},
            {"prefill_seconds", g.prefill_seconds},
            {"finish", name_of(g.finish)},
            {"drafter", f.drafter.name},
            {"rule", name_of(g.rule)},
            {"exact", g.exact},
            {"seed", g.seed},
            {"temperature", f.sampling.options.sampling.temperature},
            {"precision", precision}});
  return j;
}

void report(const Flags& f, const Generated& g, std::size_t prompt_tokens) {
  const std::string rule = fmt::format(
      "{} ({})", name_of(g.rule), g.exact ? "exact" : styled(stderr, Style::kYellow, "INEXACT"));
  note(styled(stderr, Style::kDim,
              fmt::format("{:.1f} tok/s, {}, prompt {} tokens in {:.2f} s, drafter {}, rule ",
                          g.tokens_per_second(), tau_text(g.statistics), prompt_tokens,
                          g.prefill_seconds, f.drafter.name)) +
       rule +
       styled(stderr, Style::kDim,
              fmt::format(", seed {}, ended by {}", g.seed, name_of(g.finish))));
}

int run(const Flags& f) {
  const Model model = load_model(f.model);
  const Drafter drafter = load_drafter(f.drafter.name, f.drafter.precision, model);
  const std::vector<Token> prompt = prompt_tokens(model, f);
  const GenerateOptions options = resolve(f.sampling);
  Listener listener;
  listener.go_on = [] { return !interrupted(); };
  if (!f.json) listener.on_text = [](std::string_view piece) { write_out(piece); };

  Generated g;
  std::optional<Certificate> certificate;
  if (f.certify) {
    auto both = generate_certified(model, drafter, prompt, options, listener);
    g = std::move(both.first);
    certificate = std::move(both.second);
  } else {
    g = generate(model, drafter, prompt, options, listener);
  }
  if (f.json) {
    nlohmann::json j = document(f, g, prompt.size(), name_of(model.precision()));
    if (certificate) j["certificate"] = to_json(*certificate);
    write_json(j);
  } else {
    write_out("\n");
    report(f, g, prompt.size());
    if (f.verbose && g.draft_length) note(explain(*g.draft_length));
    if (certificate) note("certificate: " + summary(*certificate));
  }
  if (g.finish == Finish::kInterrupted) return 130;
  return certificate && !certificate->passed() ? 1 : 0;
}

}  // namespace

Action add_generate(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  command = parent.add_subcommand("generate", "Answer a prompt, or continue a text (--raw)");
  bind(*command, f->model);
  bind(*command, f->drafter);
  bind(*command, f->sampling);
  auto* text = command->add_option("-p,--prompt", f->prompt, "The prompt");
  auto* file = command->add_option("-f,--prompt-file", f->prompt_file,
                                   "Read the prompt from a file, - for standard input");
  text->excludes(file);
  command->add_option("--system", f->system, "System message, in the chat format only");
  command->add_flag("--raw", f->raw, "Continue the text as it is, without the chat format");
  command->add_flag("--certify", f->certify,
                    "Score the outputs again by plain passes and print the certificate");
  command->add_flag("-v,--verbose", f->verbose, "Explain how far it drafted, and why");
  command->add_flag("--json", f->json, "One JSON document on standard output");
  command->footer(R"(Examples:
  forerun generate -m model.gguf -p "Why is the sky blue?"
  forerun generate -m model.gguf -p "Once upon a time" --raw --temp 0.8 --seed 7
  forerun generate -m big/ --drafter draft-model:small.gguf -p "..." --temp 1 --certify
  forerun generate -m model.gguf -f prompt.txt --json > answer.json

Drafting changes the speed, never the law of the text: with --temp 0 or --rule shared-noise
the text is the same with any drafter, or none.)");
  return [f, command] {
    if (command->count("-p") + command->count("-f") == 0) {
      throw UsageError("generate: no prompt; give -p TEXT or -f FILE");
    }
    return run(*f);
  };
}

}  // namespace forerun::cli
