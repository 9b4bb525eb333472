#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "forerun/base/atomic_file.h"
#include "forerun/cli/diffusion_text.h"
#include "forerun/cli/explain.h"
#include "forerun/cli/final_message.h"
#include "forerun/cli/images.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/options.h"
#include "forerun/cli/paths.h"
#include "forerun/cli/report/text_trace.h"
#include "forerun/cli/terminal.h"
#include "forerun/diffusion_text.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

struct GenerateFlags {
  RunFlags run;
  DiffusionTextFlags diffusion;
  ImageFiles files;
  std::string prompt, prompt_file, system, template_variables, generation_config = "none";
  bool raw = false, json = false, certify = false, verbose = false;
};

std::string read_prompt(const std::string& path) {
  if (path == "-") return read_input(std::cin, path, "prompt");
  return read_input(path, "prompt file");
}

std::string prompt_of(const GenerateFlags& f) {
  return f.prompt_file.empty() ? f.prompt : read_prompt(f.prompt_file);
}

std::vector<Token> prompt_tokens(const Model& model, const GenerateFlags& f) {
  const std::string text = prompt_of(f);
  if (f.raw && !f.template_variables.empty()) {
    throw UsageError("--chat-template-kwargs and --raw: a text as it is has no template");
  }
  if (f.raw) return model.encode(text);
  std::vector<Message> turns;
  if (!f.system.empty()) turns.push_back({"system", f.system});
  turns.push_back({"user", text});
  std::vector<Token> tokens = model.encode_chat(turns, {.variables = f.template_variables});
  note_chat(model);
  return tokens;
}

nlohmann::json document(const GenerateFlags& f, const Generated& g, std::size_t prompt_tokens,
                        const Model& model) {
  nlohmann::json j = run_json(f.run, model.chosen_precision());
  j.update(to_json(g.statistics));
  j.update({{"text", g.text},
            {"tokens", g.tokens},
            {"target_passes", g.statistics.passes + static_cast<std::uint64_t>(g.prefill_passes)},
            {"seconds", g.seconds},
            {"tok_s", g.tokens_per_second()},
            {"prompt_tokens", prompt_tokens},
            {"prefill_seconds", g.prefill_seconds},
            {"finish", name_of(g.finish)},
            {"interrupted", g.finish == Finish::kInterrupted},
            {"exact", g.exact},
            {"temperature", f.run.text.sampling.temperature}});
  return j;
}

// Of an exact rule that judged another law than the target's, the drafter is to blame.
std::string exactness(const Generated& g) {
  return g.exact            ? "exact"
         : is_exact(g.rule) ? "INEXACT: another law than the target's"
                            : "INEXACT";
}

void report(const GenerateFlags& f, const Generated& g, std::size_t prompt_tokens,
            const Model& model) {
  const std::string rule =
      fmt::format("{} ({})", name_of(g.rule),
                  g.exact ? exactness(g) : styled(stderr, Style::kYellow, exactness(g)));
  note(styled(stderr, Style::kDim,
              fmt::format("{:.1f} tok/s, {}, prompt {} tokens in {:.2f} s, {}, drafter {}, rule ",
                          g.tokens_per_second(), tau_text(g.statistics), prompt_tokens,
                          g.prefill_seconds, name_of(model.precision()),
                          printable(f.run.draft.drafter))) +
       rule +
       styled(stderr, Style::kDim,
              fmt::format(", seed {}, ended by {}", g.seed, name_of(g.finish))));
}

// The first words of the prompt, for a title.
std::string title_of(std::string_view prompt) {
  constexpr std::size_t kMost = 80;
  return prompt.size() <= kMost
             ? std::string(prompt)
             : std::string(prompt.substr(0, prompt.find(' ', kMost - 20))) + " ...";
}

TextTracePage page_of(const GenerateFlags& f, const Generated& g, const Model& model,
                      const std::string& command) {
  TextTracePage page{.title = title_of(f.prompt.empty() ? f.prompt_file : f.prompt),
                     .command = command,
                     .version = FORERUN_VERSION};
  const auto text_of = [&](Token token) { return model.decode({&token, 1}); };
  for (const TextTrace::Round& r : g.trace->rounds) {
    TextTracePage::Round round{.drafts = {},
                               .own = {},
                               .outputs = r.outputs.size(),
                               .drafter_ms = 1e3 * r.drafter_seconds,
                               .target_ms = 1e3 * r.target_seconds};
    for (std::size_t i = 0; i < r.drafts.size(); ++i) {
      round.drafts.push_back({.text = text_of(r.drafts[i]), .parent = r.parents[i]});
    }
    for (const std::int32_t kept : r.kept) round.drafts[static_cast<std::size_t>(kept)].kept = true;
    if (r.outputs.size() > r.kept.size()) round.own = text_of(r.outputs.back());
    page.rounds.push_back(std::move(round));
  }
  page.facts = {{"drafter", f.run.draft.drafter},
                {"precision", std::string(name_of(model.precision()))},
                {"rule", fmt::format("{} ({})", name_of(g.rule), exactness(g))},
                {"temperature", fmt::format("{}", f.run.text.sampling.temperature)},
                {"tokens a pass", fmt::format("{:.2f}", g.statistics.tau())},
                {"tokens a second", fmt::format("{:.1f}", g.tokens_per_second())},
                {"seed", fmt::format("{}", g.seed)}};
  return page;
}

int generate_text(GenerateFlags& f, const Command& command) {
  GenerateOptions options = text_options(f.run.text, f.run.draft);
  std::optional<AtomicFile> trace;
  if (command.given("--trace")) {
    std::vector<std::string> inputs = inputs_of(f.run);
    inputs.insert(inputs.end(), {f.prompt_file, f.run.draft.form.json_schema});
    expect_apart({{"--trace", f.files.trace}}, inputs);
    trace.emplace(f.files.trace);
    options.trace = true;
  }
  const Model model = load_model(f.run.model);
  if (trace) expect_apart({{"--trace", f.files.trace}}, beside(model));
  LogitChanges& changes = f.run.text.changes;
  take_recommended(f.run.text.sampling, changes, model, command, f.generation_config);
  options.sampling = f.run.text.sampling;
  options.changes.repetition_penalty = changes.repetition_penalty;
  hold_to_form(options, f.run.draft.form, model, f.raw);
  const bool final_alone = options.changes.grammar && !f.raw && model.answers_in_channels();
  const Drafter drafter = load_drafter(f.run.draft.drafter, f.run.draft.precision, model);
  const std::vector<Token> prompt = prompt_tokens(model, f);
  Listener listener;
  listener.go_on = [] { return !interrupted(); };
  if (!f.json && !final_alone) listener.on_text = [](std::string_view piece) { write_out(piece); };

  Generated g;
  std::optional<Certificate> certificate;
  if (f.certify) {
    auto both = generate_certified(model, drafter, prompt, options, listener);
    g = std::move(both.first);
    certificate = std::move(both.second);
  } else {
    g = generate(model, drafter, prompt, options, listener);
  }
  HarmonyParts parts;
  if (final_alone) {
    parts = parts_in_channels(g, model);
    g.text = parts.content;
    if (!f.json) write_out(g.text);
  }
  if (trace) trace->commit(render_text_trace(page_of(f, g, model, command.line())));
  if (f.json) {
    nlohmann::json j = document(f, g, prompt.size(), model);
    if (!parts.analysis.empty()) j["reasoning"] = parts.analysis;
    if (certificate) j["certificate"] = to_json(*certificate);
    write_json(j);
  } else {
    write_out("\n");
    report(f, g, prompt.size(), model);
    if (f.verbose && g.draft_length) note(explain(*g.draft_length));
    if (certificate) note("certificate: " + summary(*certificate));
  }
  if (g.finish == Finish::kInterrupted || interrupted()) return 130;
  return certificate && !certificate->passed() ? 1 : 0;
}

void expect_prompt(const GenerateFlags& f, const Command& command) {
  if (command.given("-p") || command.given("-f")) return;
  throw UsageError(
      fmt::format("{} writes texts: give it a prompt with -p TEXT or -f FILE", f.run.model.path));
}

int run_generate(GenerateFlags& f, const Command& command) {
  if (is_diffusion_language_model(f.run.model.path)) {
    expect_prompt(f, command);
    return generate_diffusion_text(
        f.run, f.diffusion,
        {.text = prompt_of(f), .system = f.system, .raw = f.raw, .file = f.prompt_file},
        f.files.trace, f.json, command);
  }
  if (const std::string flag = command.given_under(kDiffusionTextTitle); !flag.empty()) {
    throw UsageError(
        fmt::format("{} is for diffusion language models; {} is none", flag, f.run.model.path));
  }
  if (settle(f.run, command, {}) != Makes::kTexts) {
    return generate_images(f.run, f.files, f.json, command);
  }
  expect_prompt(f, command);
  return generate_text(f, command);
}

}  // namespace

void add_generate(Command& program) {
  auto f = std::make_shared<GenerateFlags>();
  Command& command =
      program.add_command("generate", "Answer a prompt, continue a text (--raw), or sample images");
  bind_model(command, f->run.model, Makes::kBoth);
  command.group(kTextTitle);
  command.add("-p,--prompt", f->prompt, "The prompt");
  command.add("-f,--prompt-file", f->prompt_file, "File of the prompt, - for standard input",
              {.excludes = "--prompt", .old = "--file", .shows = "FILE"});
  command.add("--system", f->system, "System message, in the chat format only");
  command.add("--raw", f->raw, "Continue the text as it is, without the chat format");
  bind_template_variables(command, f->template_variables);
  bind_text(command, f->run.text, f->run.draft);
  command.group(kTextTitle);
  bind_generation_config(command, f->generation_config);
  bind_form(command, f->run.draft.form);
  command.group(kTextTitle);
  command.add("--certify", f->certify,
              "Score the outputs again by plain passes and print the certificate");
  command.add("-v,--verbose", f->verbose, "Explain how far it drafted, and why");
  bind_diffusion_text(command, f->diffusion);
  command.group(kImageTitle);
  command.add("-o,--out", f->files.out, "PNG file of all images, as a grid", {.shows = "FILE"});
  command.add("--vae", f->run.images.options.vae,
              "Folder of the decoder, where the model's images are latents", {.shows = "FOLDER"});
  bind_places(command, f->run.images);
  bind_images(command, f->run);
  bind_drafter(command, f->run.draft, Makes::kBoth);
  bind_drafting(command, f->run.draft, Makes::kBoth,
                "15 for texts, 63 for images, 8 token by token");
  command.group(kOutputTitle);
  command.add("--trace", f->files.trace,
              "HTML page: of a text every round, of the first image every step or token, and what "
              "was kept",
              {.shows = "FILE"});
  command.add("--json", f->json, "One JSON document on standard output");
  command.footer(R"(Examples:
  forerun generate -m model.gguf -p "Why is the sky blue?"
  forerun generate -m model.gguf -p "Once upon a time" --raw --temp 0.8 --seed 7
  forerun generate -m big/ --drafter draft-model:small.gguf -p "..." --temp 1 --certify
  forerun generate -m model.gguf -f prompt.txt --json > answer.json
  forerun generate -m model.gguf -p "Describe a cat." --json-schema animal.json
  forerun generate -m model.gguf -p "Is the sky blue?" --choice yes --choice no
  forerun generate -m dream -p "..." -n 64 --steps 16 --trace trace.html
  forerun generate -m dit --class 3,7 --count 8 --cfg 1.5 --drafter free:free --out grid.png
  forerun generate -m mar --class 3 --count 4 --drafter cspd:draft --out grid.png --trace trace.html
  forerun generate -m DiT-XL-2-256 --class 207 --vae sd-vae-ft-ema --out dog.png

Drafting changes the speed, never the law of texts and images. With --temp 0 or --rule shared-noise
the text is the same with any drafter, or none.)");
  command.runs([f, &command] { return run_generate(*f, command); });
}

}  // namespace forerun::cli
