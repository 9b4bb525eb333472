#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/cli/token_images.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

struct CertifyFlags {
  RunFlags run;
  std::string prompts;
  std::size_t tokens = 4000;
  bool raw = false, json = false;
};

// What is not drafted is not tested.
bool passed(const Certificate& c) { return c.passed() && c.statistics.drafted > 0; }

void report(const Certificate& c) {
  const bool ok = passed(c);
  const char* const verdict = ok                          ? "PASS"
                              : c.tokens == 0             ? "NOTHING JUDGED"
                              : c.statistics.drafted == 0 ? "NOTHING DRAFTED"
                                                          : "FAIL";
  write_out(fmt::format("{} {}\n", styled(stdout, ok ? Style::kGreen : Style::kRed, verdict),
                        summary(c)));
  if (!c.exact) write_out("the rule is INEXACT by design: it should fail\n");
  for (const Difference& d : c.differences) write_out("  " + describe(d) + "\n");
  write_out(fmt::format("{}\n", tau_text(c.statistics)));
}

int certify_text(const CertifyFlags& f) {
  const std::vector<Prompt> texts = read_prompts(f.prompts);
  GenerateOptions options = text_options(f.run.text, f.run.draft);
  const Model model = load_model(f.run.model);
  hold_to_schema(options, f.run.draft, model);
  const Drafter drafter = load_drafter(f.run.draft.drafter, f.run.draft.precision, model);
  const auto prompts = encode_prompts(model, texts, f.raw);
  Progress progress;
  const Listener listener = counting(progress, f.tokens);
  const Certificate c =
      certify(model, drafter, prompts, f.tokens, options.max_tokens, options, listener);
  progress.clear();
  if (f.json) {
    nlohmann::json j = run_json(f.run, model.chosen_precision());
    j.update(to_json(c));
    j.update({{"passed", passed(c)},
              {"temperature", options.sampling.temperature},
              {"statistics", to_json(c.statistics)}});
    write_json(j);
  } else {
    report(c);
  }
  if (interrupted()) return 130;
  return passed(c) ? 0 : 1;
}

int run_certify(CertifyFlags& f, const Command& command) {
  switch (settle(f.run, command, {.text = 8, .image = 7, .token = 4})) {
    case Makes::kImages:
      return certify_images(f.run, f.json);
    case Makes::kTokenImages:
      return certify_token_images(f.run, f.json);
    default:
      break;
  }
  if (!command.given("--prompts")) {
    throw UsageError(
        fmt::format("{} writes texts: give it prompts with --prompts FILE", f.run.model.path));
  }
  return certify_text(f);
}

}  // namespace

void add_certify(Command& program) {
  auto f = std::make_shared<CertifyFlags>();
  f->run.text.max_tokens = 128;
  f->run.text.sampling.temperature = 1.0;
  f->run.images.count = 64;
  f->run.draft.fixed = true;
  Command& command = program.add_command(
      "certify", "Test on outputs whether drafting changed the law of texts or images");
  bind_model(command, f->run.model, Makes::kBoth);
  command.group(kTextTitle);
  command.add("--prompts", f->prompts, "JSON lines, each with a \"prompt\"", {.shows = "FILE"});
  command.add("--tokens", f->tokens, "Outputs to score, over all prompts",
              {.least = 1, .most = 100000000});
  command.add("--raw", f->raw, "Prompts as they are, without the chat format");
  bind_text(command, f->run.text, f->run.draft);
  bind_json_schema(command, f->run.draft);
  bind_places(command, f->run.images);
  bind_images(command, f->run);
  bind_drafter(command, f->run.draft, Makes::kBoth);
  bind_drafting(command, f->run.draft, Makes::kBoth, "8 for texts, 7 for images, 4 token by token");
  command.group(kOutputTitle);
  command.add("--json", f->json, "One JSON document on standard output");
  command.footer(R"(Examples:
  forerun certify -m model.gguf --prompts prompts.jsonl
  forerun certify -m model.gguf --prompts prompts.jsonl --rule typical     (is caught)
  forerun certify -m model.gguf --prompts prompts.jsonl --temp 0           (equality)
  forerun certify -m dit --drafter asd --steps 100 --count 16
  forerun certify -m mar --drafter cspd:draft --rule paper                 (is caught)

Every output is scored again by plain passes of the model. For an exact rule z is standard normal;
|z| >= 4 or a Kolmogorov-Smirnov p under 1e-4 fails. Of images z is the mean projection of what is
left of a step, in standard deviations, on the direction from the model's mean to the draft's: only
there can a biased rule be seen. Exit status 0: passed; 1: failed, or nothing was drafted.)");
  command.runs([f, &command] { return run_certify(*f, command); });
}

}  // namespace forerun::cli
