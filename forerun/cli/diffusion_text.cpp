#include "forerun/cli/diffusion_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/base/atomic_file.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/report/diffusion_trace.h"
#include "forerun/cli/terminal.h"
#include "forerun/diffusion_text.h"

namespace forerun::cli {
namespace {

// Drafting and its checks are for models that write token by token.
void expect_own_flags(const Command& command, const std::string& path) {
  std::string other;
  constexpr std::string_view kOthers[] = {"--drafter",
                                          "--rule",
                                          "--max-draft",
                                          "--fixed-draft",
                                          "--draft-precision",
                                          "--certify",
                                          "--verbose",
                                          "--stop",
                                          "--out",
                                          "--json-schema",
                                          "--regex",
                                          "--choice",
                                          "--chat-template-kwargs",
                                          "--generation-config",
                                          "--logit-bias",
                                          "--presence-penalty",
                                          "--frequency-penalty",
                                          "--repetition-penalty",
                                          "--class",
                                          "--count",
                                          "--cfg",
                                          "--batch-size"};
  for (const std::string_view flag : kOthers) {
    if (command.given(flag)) other = flag;
  }
  for (const char* title : {kDitTitle, kTokenTitle}) {
    if (other.empty()) other = command.given_under(title);
  }
  if (!other.empty()) {
    throw UsageError(fmt::format(
        "{} is for other models; {} holds a diffusion language model, which writes many tokens in "
        "a pass: leave it out",
        other, path));
  }
}

std::vector<Token> encoded(const DiffusionLanguageModel& model, const GivenPrompt& prompt) {
  if (prompt.raw) return model.encode(prompt.text);
  std::vector<Message> turns;
  if (!prompt.system.empty()) turns.push_back({"system", prompt.system});
  turns.push_back({"user", prompt.text});
  return model.encode_chat(turns);
}

double tokens_per_second(const DiffusedText& g) {
  return g.seconds > 0.0 ? static_cast<double>(g.tokens.size()) / g.seconds : 0.0;
}

std::vector<std::pair<std::string, std::string>> facts_of(const DiffusedText& g,
                                                          const DiffusionTextOptions& options) {
  return {{"unmasking", options.unmasking},
          {"passes", fmt::format("{}", g.steps)},
          {"tokens a pass", fmt::format("{:.2f}", static_cast<double>(g.tokens.size()) /
                                                      static_cast<double>(g.steps))},
          {"temperature", fmt::format("{}", options.sampling.temperature)},
          {"seed", fmt::format("{}", options.seed)}};
}

nlohmann::json to_json(const DiffusedText& g) {
  return {{"text", g.text},
          {"tokens", g.tokens},
          {"passes", g.steps},
          {"seconds", g.seconds},
          {"tok_s", tokens_per_second(g)},
          {"interrupted", g.interrupted}};
}

// The options that the flags ask for.
DiffusionTextOptions options_of(const RunFlags& run, const DiffusionTextFlags& flags,
                                const Command& command) {
  DiffusionTextOptions o{.unmasking = flags.unmasking,
                         .block = flags.block,
                         .sampling = run.text.sampling,
                         .seed = run.draft.seed,
                         .ignore_end = run.text.ignore_end};
  if (command.given("--max-tokens")) o.length = static_cast<std::int64_t>(run.text.max_tokens);
  if (command.given("--steps")) o.steps = run.images.options.steps;
  return o;
}

}  // namespace

void bind_diffusion_text(Command& command, DiffusionTextFlags& f) {
  command.group(kDiffusionTextTitle);
  command.add("--unmask", f.unmasking, "Which places a step fills",
              {.one_of = {"entropy", "maskgit-plus", "topk-margin", "origin", "low-confidence"},
               .shows = "NAME"});
  command.add("--block-length", f.block,
              "Of low-confidence: places filled before those after them, 0 = all",
              {.least = 0, .most = 1 << 20});
  command.group("");
}

int generate_diffusion_text(const RunFlags& run, const DiffusionTextFlags& flags,
                            const GivenPrompt& prompt, const std::string& trace, bool json,
                            const Command& command) {
  expect_own_flags(command, run.model.path);
  std::optional<AtomicFile> file;
  if (command.given("--trace")) {
    expect_apart({{"--trace", trace}}, {run.model.path, prompt.file});
    file.emplace(trace);
  }
  set_threads(run.model.threads);
  const auto model = [&] {
    const EndsAtFirst loading;
    return DiffusionLanguageModel::load(run.model.path, precision_of(run.model.precision));
  }();
  note_precision(model.chosen_precision());
  const DiffusionTextOptions options = options_of(run, flags, command);
  const std::vector<Token> tokens = encoded(model, prompt);
  DiffusionTracePage page{.title = prompt.text.substr(0, 80),
                          .command = command.line(),
                          .version = FORERUN_VERSION,
                          .places = static_cast<std::size_t>(options.length)};
  std::vector<bool> stands(page.places, false);
  Progress progress;
  DiffusionTextListener listener;
  listener.go_on = [] { return !interrupted(); };
  listener.on_step = [&](std::int64_t step, std::span<const Token> places) {
    page.steps.emplace_back();
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] < 0 || stands[i]) continue;
      stands[i] = true;
      page.steps.back().push_back({i, model.decode(places.subspan(i, 1))});
    }
    progress.show(fmt::format("step {}", step + 1));
  };
  const DiffusedText g = generate_by_diffusion(model, tokens, options, listener);
  progress.clear();
  if (file) {
    page.facts = facts_of(g, options);
    file->commit(render_diffusion_trace(page));
  }
  if (json) {
    nlohmann::json document = to_json(g);
    document.update({{"model", run.model.path},
                     {"prompt_tokens", tokens.size()},
                     {"unmasking", options.unmasking}});
    write_json(document);
  } else {
    write_out(g.text + "\n");
    note(styled(stderr, Style::kDim,
                fmt::format("{:.1f} tok/s, {} tokens in {} passes, unmasking {}, seed {}",
                            tokens_per_second(g), g.tokens.size(), g.steps, options.unmasking,
                            options.seed)));
  }
  return g.interrupted ? 130 : 0;
}

}  // namespace forerun::cli
