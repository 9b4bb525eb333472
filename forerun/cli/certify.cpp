#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"

namespace forerun::cli {
namespace {

struct Flags {
  ModelFlags model;
  DrafterFlags drafter;
  SamplingFlags sampling;
  std::string prompts;
  std::size_t tokens = 4000;
  bool raw = false, json = false, adaptive = false;
};

void report(const Certificate& c) {
  const bool ok = c.passed();
  write_out(fmt::format("{} {}\n",
                        styled(stdout, ok ? Style::kGreen : Style::kRed, ok ? "PASS" : "FAIL"),
                        summary(c)));
  if (!c.exact) write_out("the rule is INEXACT by design: it should fail\n");
  for (const Difference& d : c.differences) write_out("  " + describe(d) + "\n");
  write_out(fmt::format("{}\n", tau_text(c.statistics)));
}

int run(const Flags& f) {
  const std::vector<Prompt> texts = read_prompts(f.prompts);
  const Model model = load_model(f.model);
  const Drafter drafter = load_drafter(f.drafter.name, f.drafter.precision, model);
  const auto prompts = encode_prompts(model, texts, f.raw);
  GenerateOptions options = resolve(f.sampling);
  // What is not drafted is not tested.
  options.fixed_draft = !f.adaptive;
  Progress progress;
  const Listener listener = counting(progress, f.tokens);
  const Certificate c =
      certify(model, drafter, prompts, f.tokens, options.max_tokens, options, listener);
  progress.clear();
  if (f.json) {
    nlohmann::json j = to_json(c);
    j.update({{"rule", f.sampling.rule},
              {"drafter", f.drafter.name},
              {"temperature", options.sampling.temperature},
              {"precision", name_of(model.precision())},
              {"seed", options.seed},
              {"statistics", to_json(c.statistics)}});
    write_json(j);
  } else {
    report(c);
  }
  if (interrupted()) return 130;
  return c.passed() ? 0 : 1;
}

}  // namespace

Action add_certify(CLI::App& parent, CLI::App*& command) {
  auto f = std::make_shared<Flags>();
  f->sampling.options.max_tokens = 128;
  f->sampling.options.max_draft = 8;
  f->sampling.options.sampling.temperature = 1.0;
  command = parent.add_subcommand(
      "certify", "Test on outputs whether drafting changed what the model generates");
  bind(*command, f->model);
  bind(*command, f->drafter);
  bind(*command, f->sampling);
  command->remove_option(command->get_option("--fixed-draft"));
  command->add_flag("--adaptive", f->adaptive,
                    "Draft as far as pays, as generate does, instead of --max-draft tokens always");
  command->get_option("-n")->description("Tokens for each prompt at most");
  command->add_option("--prompts", f->prompts, "JSON lines, each with a \"prompt\"")->required();
  command->add_option("--tokens", f->tokens, "Outputs to score, over all prompts")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100000000}))
      ->capture_default_str();
  command->add_flag("--raw", f->raw, "Prompts as they are, without the chat format");
  command->add_flag("--json", f->json, "One JSON document on standard output");
  command->footer(R"(Examples:
  forerun certify -m model.gguf --prompts prompts.jsonl
  forerun certify -m model.gguf --prompts prompts.jsonl --rule typical     (is caught)
  forerun certify -m model.gguf --prompts prompts.jsonl --temp 0           (equality)

Every output is scored again by plain passes of the target. For an exact rule z is standard
normal; |z| >= 4 or a Kolmogorov-Smirnov p under 1e-4 fails. Exit status 0: passed, 1: failed.)");
  return [f] { return run(*f); };
}

}  // namespace forerun::cli
