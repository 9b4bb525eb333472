#include "forerun/cli/images.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "forerun/base/json_text.h"
#include "forerun/base/settings.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/paths.h"
#include "forerun/image.h"

namespace forerun::cli {
namespace {

std::vector<double> read_profile(const RunFlags& f, const DiffusionModel& model) {
  const std::string& path = f.images.profile;
  if (path.empty()) {
    throw UsageError(
        "--rule relax needs --profile FILE, which `forerun profile` makes for a drafter, a number "
        "of steps and a guidance");
  }
  const Result<nlohmann::json> parsed = parse_json(read_input(path, "profile"));
  try {
    const nlohmann::json j = parsed ? *parsed : nlohmann::json();
    if (j.at("format") != kProfileFormat) {
      throw UsageError(
          fmt::format("the profile '{}' is in the format of another version: make it "
                      "again with `forerun profile`",
                      path));
    }
    const std::string difference = settings_difference(j.at("of"), profile_settings(f, model));
    if (!difference.empty()) {
      throw UsageError(fmt::format("the profile '{}' is of {}: make one with `forerun profile`",
                                   path, difference));
    }
    return j.at("relaxation").get<std::vector<double>>();
  } catch (const nlohmann::json::exception&) {
    throw UsageError(fmt::format("'{}' is no profile; `forerun profile` makes them", path));
  }
}

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
              {.standard = "1.5; token by token 1"});
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

DiffusionModel load_diffusion(const RunFlags& f) {
  expect_path(f.model.path);
  set_threads(f.model.threads);
  DiffusionModel model = DiffusionModel::load(
      f.model.path,
      f.images.dialect == "diffusers" ? DitDialect::kDiffusers : DitDialect::kReference,
      precision_of(f.model.precision));
  if (!f.images.options.vae.empty() && !model.latent()) {
    throw UsageError(
        fmt::format("--vae decodes latents; {} makes pixels: leave it out", f.model.path));
  }
  note_precision(model.chosen_precision());
  return model;
}

std::vector<std::string> inputs_of(const RunFlags& f) {
  return {f.model.path, path_of_drafter(f.draft.drafter), f.images.profile, f.images.options.vae};
}

nlohmann::json run_json(const RunFlags& f, const ChosenPrecision& precision) {
  return {{"model", f.model.path},
          {"precision", std::string(name_of(precision.precision))},
          {"precision_reason", precision.reason},
          {"threads", machine().threads},
          {"drafter", f.draft.drafter},
          {"rule", f.draft.rule},
          {"max_draft", f.draft.max_draft.value_or(0)},
          {"fixed_draft", f.draft.fixed},
          {"seed", f.draft.seed}};
}

std::vector<std::int64_t> labels_of(const ImageFlags& f, std::int64_t classes) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < f.count; ++i) {
    out.push_back(f.classes.empty()
                      ? static_cast<std::int64_t>(i % static_cast<std::size_t>(classes))
                      : f.classes[i % f.classes.size()]);
  }
  return out;
}

ImageOptions image_options(const RunFlags& f, const DiffusionModel& model) {
  const bool relax = f.draft.rule == "relax";
  if (f.draft.rule != "maximal" && f.draft.rule != "block" && !relax) {
    throw UsageError(
        fmt::format("--rule {} is for other models; Diffusion Transformers have maximal, block and "
                    "relax",
                    f.draft.rule));
  }
  ImageOptions o = f.images.options;
  o.max_draft = f.draft.max_draft.value_or(o.max_draft);
  o.fixed_draft = f.draft.fixed;
  o.seed = f.draft.seed;
  if (f.draft.rule == "block") o.rule = Rule::kBlock;
  if (relax) o.relaxation = read_profile(f, model);
  return o;
}

nlohmann::json step_settings(const ImageOptions& o, const DiffusionModel& model) {
  return {{"precision", std::string(name_of(model.precision()))},
          {"steps", o.steps},
          {"guidance", o.guidance},
          {"guided_channels", o.guided_channels},
          {"variance", o.variance_share},
          {"eta", o.eta}};
}

nlohmann::json profile_settings(const RunFlags& f, const DiffusionModel& model) {
  const ImageOptions& o = f.images.options;
  nlohmann::json out = step_settings(o, model);
  out.update({{"model", model.digest()},
              {"drafter", f.draft.drafter.substr(0, f.draft.drafter.find(':'))},
              {"dialect", f.images.dialect},
              {"two calls", o.two_calls},
              {"reuse", o.reuse}});
  return out;
}

ImageListener watching(Progress& progress, const char* steps) {
  ImageListener out;
  out.go_on = [] { return !interrupted(); };
  out.on_progress = [&progress, steps](const ImageProgress& p) {
    constexpr std::size_t kWidth = 24;
    const double share =
        p.of_steps == 0 ? 0.0 : static_cast<double>(p.steps) / static_cast<double>(p.of_steps);
    const auto filled = static_cast<std::size_t>(share * kWidth);
    const double left = share > 0.0 ? p.seconds * (1.0 - share) / share : 0.0;
    std::string drafts;
    if (p.kept + p.rejected > 0) {
      drafts = fmt::format("  drafts {} kept, {} rejected", p.kept, p.rejected);
    }
    progress.show(fmt::format("[{}{}] {} of {} {}, {} of {} images{}  {:.0f} s left",
                              std::string(filled, '#'), std::string(kWidth - filled, '.'), p.steps,
                              p.of_steps, steps, p.images, p.of_images, drafts, left));
  };
  return out;
}

nlohmann::json settings(const RunFlags& f, const DiffusionModel& model) {
  const ImageOptions& o = f.images.options;
  nlohmann::json out = run_json(f, model.chosen_precision());
  out.update(step_settings(o, model));
  out.update({{"model_digest", model.digest()},
              {"dialect", f.images.dialect},
              {"classes", f.images.classes},
              {"two_calls", o.two_calls},
              {"reuse", o.reuse},
              {"batch_size", o.batch_size}});
  return out;
}

nlohmann::json to_json(const ImageRun& r) {
  std::vector<std::uint64_t> examined, kept;
  for (const StepStatistics& s : r.steps) {
    examined.push_back(s.examined);
    kept.push_back(s.kept);
  }
  nlohmann::json out = to_json(r.statistics);
  out.update({{"images", r.values.size()},
              {"interrupted", r.interrupted},
              {"examined_by_step", examined},
              {"accepted_by_step", kept},
              {"efficiency", r.efficiency()},
              {"transitions", r.statistics.outputs},
              {"target_passes", r.calls},
              {"states", r.states},
              {"seconds", r.seconds},
              {"exact", r.exact}});
  return out;
}

nlohmann::json to_json(const ImageCertificate& c) {
  return {{"passed", c.passed()},
          {"interrupted", c.interrupted},
          {"transitions", c.report.outputs},
          {"drafted", c.report.drafted},
          {"z", c.report.z},
          {"ks_p", c.report.ks_p},
          {"energy_p", c.report.energy_p},
          {"forbidden", c.report.forbidden},
          {"kept", c.kept},
          {"expected", c.expected},
          {"expected_z", c.expected_z},
          {"shift", c.shift},
          {"predicted_shift", c.predicted_shift},
          {"counterfactuals", c.counterfactuals.places},
          {"violations", c.counterfactuals.violations},
          {"seconds", c.seconds}};
}

std::string summary(const ImageRun& r) {
  const auto steps = static_cast<double>(r.steps.size());
  // Of images that were interrupted too.
  return fmt::format("{:.0f} steps in {:.1f} target calls an image: parallel efficiency {:.2f}",
                     steps, r.efficiency() > 0.0 ? steps / r.efficiency() : 0.0, r.efficiency());
}

}  // namespace forerun::cli
