#include <fmt/format.h>

#include <charconv>

#include "forerun/cli/images.h"
#include "forerun/cli/paths.h"

namespace forerun::cli {
namespace {

// The former -L: states that a pass scores, of which all but one are drafted; "auto".
void use_draft_length(DraftFlags& f, const std::string& text) {
  if (text == "auto") {
    f.fixed = false;
    note(
        "forerun: -L, --draft-length is a former name; auto is the default of generate, and "
        "--adaptive elsewhere");
    return;
  }
  const std::uint32_t drafts = drafts_of_states(text);
  f.max_draft = drafts;
  f.fixed = true;
  note(fmt::format(
      "forerun: -L, --draft-length is a former name; -L {} is --max-draft {} --fixed-draft", text,
      drafts));
}

}  // namespace

std::uint32_t drafts_of_states(const std::string& text) {
  constexpr std::uint32_t kMost = 1024;
  std::uint32_t states = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, states);
  if (read.ec != std::errc() || read.ptr != end || states < 1 || states > kMost) {
    throw UsageError(fmt::format("draft length '{}': 1 to {}, or auto", text, kMost));
  }
  return states - 1;
}

void bind_places(Command& command, ImageFlags& f) {
  command.group(kImageTitle);
  command.add("--class", f.classes, "Classes of the images, in turn; none: all of the model's",
              {.commas = true});
  command.add("--count", f.count, "Images", {.least = 1, .most = 1 << 20});
  command.group("");
}

void bind_images(Command& command, RunFlags& f) {
  ImageOptions& o = f.images.options;
  command.group(kImageTitle);
  command.add(
      "--steps", o.steps,
      "Steps of sampling; token by token, of each token; passes of a diffusion language model",
      {.least = 1, .most = 1000, .standard = "1000; token by token 25; of texts one a token"});
  command.add("--cfg", o.guidance, "Classifier-free guidance, 1 = none",
              {.least = -1000, .most = 1000, .standard = "1.5; token by token 1"});
  command.add("--batch-size", o.batch_size, "Images at a time; none depends on it",
              {.least = 1, .most = 1 << 16, .old = "--lanes"});
  command.group(kDitTitle);
  command.add("--guided-channels", o.guided_channels,
              "How many channels are guided, 0 = as the dialect does: reference 3 of 4, diffusers "
              "all",
              {.least = 0, .most = 1024});
  command.add("--dialect", f.images.dialect,
              "Whose arithmetic: that of facebookresearch/DiT or of diffusers",
              {.one_of = {"reference", "diffusers"}, .shows = "NAME"});
  command.add("--variance", o.variance_share,
              "Of a step: 0 the posterior's, 1 beta, between them by logarithm",
              {.least = 0, .most = 1});
  command.add("--eta", o.eta, "Stochasticity; 1 is DDPM");
  command.add("--profile", f.images.profile,
              "How far --rule relax goes, by step; `forerun profile` makes it", {.shows = "FILE"});
  command.add("--two-calls", o.two_calls,
              "A pass of the model before drafting, and one after, as the papers count");
  command.add("--no-reuse", o.reuse,
              "Without correcting predictions by passes over rejected states, as published",
              {.old = "--no-recall"});
  command.add_old("-L,--draft-length",
                  [&f](const std::string& text) { use_draft_length(f.draft, text); });
  command.group(kTokenTitle);
  TokenImageFlags& t = f.images.tokens;
  command.add(
      "--final-step", t.final_step,
      "How a token's chain ends. The published last step adds no noise: such a token has no "
      "density and no draft of it could be kept exactly. truncate leaves the step out (44 dB "
      "below the token), noisy gives it noise",
      {.one_of = {"truncate", "noisy"}, .shows = "NAME"});
  command.add("--token-variance", t.variance,
              "Of inner steps: measured on the model, beta, or the posterior's",
              {.one_of = {"calibrated", "beta", "posterior"}, .shows = "NAME"});
  command.add("--cfg-schedule", t.guidance_schedule,
              "Guidance at every token, or rising along the image as in MAR",
              {.one_of = {"constant", "linear"}, .shows = "NAME"});
  command.add("--token-temp", t.options.temperature, "Times the noise of every inner step",
              {.least = 0.01, .most = 100});
  command.add("--passes", t.options.passes,
              "Of the backbone over an image, for models of the masked form, which draw several "
              "tokens a pass; 0 = 64, or as many as tokens",
              {.most = 4096});
  command.add("--prefill", t.options.prefill,
              "Tokens that the model makes alone before any are drafted", {.most = 1 << 16});
  command.group("");
}

namespace {

const char* name_of(Makes kind) {
  return kind == Makes::kImages        ? "a Diffusion Transformer"
         : kind == Makes::kTokenImages ? "an image-token model"
                                       : "a language model";
}

// What a flag under this title is for.
const char* purpose_of(std::string_view title) {
  return title == kTextTitle    ? "language models"
         : title == kImageTitle ? "models that make images"
         : title == kDitTitle   ? "Diffusion Transformers"
                                : "image-token models";
}

}  // namespace

Makes settle(RunFlags& f, const Command& command, const DefaultDrafts& drafts) {
  const std::string& path = f.model.path;
  expect_path(path);
  const Makes kind = is_diffusion_model(path)     ? Makes::kImages
                     : is_token_image_model(path) ? Makes::kTokenImages
                                                  : Makes::kTexts;
  for (const char* title : {kTextTitle, kImageTitle, kDitTitle, kTokenTitle}) {
    if (title == kTextTitle && kind == Makes::kTexts) continue;
    if (title == kImageTitle && kind != Makes::kTexts) continue;
    if (title == kDitTitle && kind == Makes::kImages) continue;
    if (title == kTokenTitle && kind == Makes::kTokenImages) continue;
    const std::string other = command.given_under(title);
    if (other.empty()) continue;
    if (kind == Makes::kTexts) static_cast<void>(inspect(path));  // a damaged model says so first
    throw UsageError(
        fmt::format("{} is for {}; {} holds {}", other, purpose_of(title), path, name_of(kind)));
  }
  const bool images = kind != Makes::kTexts;
  if (f.draft.drafter.empty()) f.draft.drafter = images ? "none" : "auto";
  if (!f.draft.max_draft) {
    f.draft.max_draft = kind == Makes::kTexts    ? drafts.text
                        : kind == Makes::kImages ? drafts.image
                                                 : drafts.token;
  }
  if (kind == Makes::kTokenImages) {
    constexpr std::int64_t kSteps = 25;
    if (f.draft.rule.empty()) f.draft.rule = "stepwise";
    if (!command.given("--steps")) f.images.options.steps = kSteps;
    if (!command.given("--cfg")) f.images.options.guidance = 1.0;
  }
  if (f.draft.rule.empty()) f.draft.rule = images ? "maximal" : "shared-noise";
  return kind;
}

}  // namespace forerun::cli
