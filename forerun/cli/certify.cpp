#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "forerun/cli/images.h"
#include "forerun/cli/options.h"
#include "forerun/cli/terminal.h"
#include "forerun/text.h"

namespace forerun::cli {
namespace {

struct CertifyFlags {
  RunFlags run;
  std::string prompts;
  std::size_t tokens = 4000;
  bool raw = false, json = false;
};

// @param settings  of the run
int finish(const Certificate& c, const CertifyFlags& f, nlohmann::json settings) {
  if (f.json) {
    settings.update(to_json(c));
    write_json(settings);
  } else {
    show(c);
  }
  if (c.interrupted) return 130;
  return passed(c) ? 0 : 1;
}

int certify_texts(const CertifyFlags& f) {
  const std::vector<Prompt> texts = read_prompts(f.prompts);
  GenerateOptions options = text_options(f.run.text, f.run.draft);
  const Model model = load_model(f.run.model);
  hold_to_form(options, f.run.draft.form, model, f.raw);
  const Drafter drafter = load_drafter(f.run.draft.drafter, f.run.draft.precision, model);
  const auto prompts = encode_prompts(model, texts, f.raw);
  Progress progress;
  const Listener listener = counting(progress, f.tokens);
  const Certificate c =
      certify(model, drafter, prompts, f.tokens, options.max_tokens, options, listener);
  progress.clear();
  nlohmann::json j = run_json(f.run, model.chosen_precision());
  j.update({{"passed", passed(c)},
            {"temperature", options.sampling.temperature},
            {"statistics", to_json(c.statistics)}});
  return finish(c, f, std::move(j));
}

template <class AnyModel>
int certify_kind(const CertifyFlags& f, const AnyModel& model) {
  const auto options = image_options(f.run, model);
  const ImageDrafter drafter = ImageDrafter::load(f.run.draft.drafter, model);
  Progress progress;
  const Certificate c = certify_images(model, drafter, labels_of(f.run.images, model.classes()),
                                       options, watching(progress, steps_name(model)));
  progress.clear();
  return finish(c, f, settings(f.run, model));
}

int run_certify(CertifyFlags& f, const Command& command) {
  if (settle(f.run, command, {.text = 8, .image = 7, .token = 4}) != Makes::kTexts) {
    return with_image_model(f.run, [&](const auto& model) { return certify_kind(f, model); });
  }
  if (!command.given("--prompts")) {
    throw UsageError(
        fmt::format("{} writes texts: give it prompts with --prompts FILE", f.run.model.path));
  }
  return certify_texts(f);
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
  bind_form(command, f->run.draft.form);
  bind_places(command, f->run.images);
  bind_images(command, f->run);
  bind_drafter(command, f->run.draft, Makes::kBoth);
  bind_drafting(command, f->run.draft, Makes::kBoth, "8 for texts, 7 for images, 4 token by token");
  command.group(kOutputTitle);
  command.add("--json", f->json, "One JSON document on standard output");
  command.footer(R"(Examples:
  forerun certify -m model.gguf --prompts prompts.jsonl
  forerun certify -m model.gguf --prompts prompts.jsonl --rule typical     # is caught
  forerun certify -m model.gguf --prompts prompts.jsonl --temp 0           # equality
  forerun certify -m dit --drafter asd --steps 100 --count 16
  forerun certify -m mar --drafter cspd:draft --rule paper                 # is caught

Every output is scored again by plain passes of the model. For an exact rule z is standard normal.
What fails: |z| >= 4, unless so few drafts were scored that it is no rare event (z_p in --json above
6e-5); p of the Kolmogorov-Smirnov or energy test under 1e-4; an output of probability 0; of images
also a decision that later noise changes. Of images z is the mean projection of what is
left of a step, in standard deviations, on the direction from the model's mean to the draft's: only
there can a biased rule be seen. Exit status 0: passed; 1: failed, or nothing was drafted.)");
  command.runs([f, &command] { return run_certify(*f, command); });
}

}  // namespace forerun::cli
