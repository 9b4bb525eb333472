#include "forerun/cli/images.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "forerun/base/json_text.h"
#include "forerun/base/settings.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/paths.h"

namespace forerun::cli {
namespace {

template <class Load>
auto loaded(const RunFlags& f, const Load& load) {
  expect_path(f.model.path);
  set_threads(f.model.threads);
  auto model = load(f.model.path, precision_of(f.model.precision));
  if (!f.images.options.vae.empty() && !model.latent()) {
    throw UsageError(
        fmt::format("--vae decodes latents; {} makes pixels: leave it out", f.model.path));
  }
  note_precision(model.chosen_precision());
  return model;
}

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
    auto relaxation = j.at("relaxation").get<std::vector<double>>();
    if (relaxation.empty()) {
      throw UsageError(fmt::format(
          "the profile '{}' holds no step: make it again with `forerun profile`", path));
    }
    return relaxation;
  } catch (const nlohmann::json::exception&) {
    throw UsageError(fmt::format("'{}' is no profile; `forerun profile` makes them", path));
  }
}

CommonImageOptions common_options(const RunFlags& f) {
  CommonImageOptions o = f.images.options;
  o.max_draft = f.draft.max_draft.value_or(o.max_draft);
  o.fixed_draft = f.draft.fixed;
  o.seed = f.draft.seed;
  return o;
}

}  // namespace

DiffusionModel load_diffusion(const RunFlags& f) {
  const EndsAtFirst loading;
  const auto dialect =
      f.images.dialect == "diffusers" ? DitDialect::kDiffusers : DitDialect::kReference;
  return loaded(f, [&](const std::string& path, PrecisionRequest precision) {
    return DiffusionModel::load(path, dialect, precision);
  });
}

TokenImageModel load_token_images(const RunFlags& f) {
  const EndsAtFirst loading;
  return loaded(f, &TokenImageModel::load);
}

std::vector<std::string> inputs_of(const RunFlags& f) {
  std::vector<std::string> out = paths_of_drafter(f.draft.drafter);
  out.insert(out.end(), {f.model.path, f.images.profile, f.images.options.vae});
  return out;
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
  static_cast<CommonImageOptions&>(o) = common_options(f);
  if (f.draft.rule == "block") o.rule = Rule::kBlock;
  if (relax) o.relaxation = read_profile(f, model);
  return o;
}

TokenImageOptions image_options(const RunFlags& f, const TokenImageModel&) {
  const TokenImageFlags& t = f.images.tokens;
  TokenImageOptions o = t.options;
  const auto rule = rule_from_name(f.draft.rule);
  if (!rule || !is_for_chains(*rule)) {
    throw UsageError(
        fmt::format("--rule {} is for other models; image tokens have stepwise and path (exact), "
                    "paper and code (INEXACT)",
                    f.draft.rule));
  }
  o.variance = t.variance == "beta"        ? TokenVariance::kBeta
               : t.variance == "posterior" ? TokenVariance::kPosterior
                                           : TokenVariance::kCalibrated;
  o.final_step = t.final_step == "noisy" ? TokenFinalStep::kNoisy : TokenFinalStep::kTruncate;
  o.linear_guidance = t.guidance_schedule == "linear";
  static_cast<CommonImageOptions&>(o) = common_options(f);
  o.rule = *rule;
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

nlohmann::json step_settings(const TokenImageOptions& o, const TokenImageModel& model) {
  nlohmann::json out = {
      {"steps", o.steps},
      {"guidance", o.guidance},
      {"guidance_schedule", o.linear_guidance ? "linear" : "constant"},
      {"variance", o.variance == TokenVariance::kBeta        ? "beta"
                   : o.variance == TokenVariance::kPosterior ? "posterior"
                                                             : "calibrated"},
      {"final_step", o.final_step == TokenFinalStep::kNoisy ? "noisy" : "truncate"},
      {"token_temperature", o.temperature}};
  if (model.masked()) out["passes"] = o.passes;
  return out;
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

namespace {

template <class AnyModel>
nlohmann::json kind_settings(const RunFlags& f, const AnyModel& model,
                             const typename AnyModel::Options& o) {
  nlohmann::json out = run_json(f, model.chosen_precision());
  out.update(step_settings(o, model));
  out.update({{"model_digest", model.digest()},
              {"classes", f.images.classes},
              {"batch_size", o.batch_size}});
  return out;
}

}  // namespace

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
  nlohmann::json out = kind_settings(f, model, o);
  out.update({{"dialect", f.images.dialect}, {"two_calls", o.two_calls}, {"reuse", o.reuse}});
  return out;
}

nlohmann::json settings(const RunFlags& f, const TokenImageModel& model) {
  const TokenImageOptions o = image_options(f, model);
  nlohmann::json out = kind_settings(f, model, o);
  out["prefill"] = o.prefill;
  return out;
}

namespace {

nlohmann::json common_json(const ImageRun& r) {
  nlohmann::json out = to_json(r.statistics);
  out.update({{"images", r.values.size()},
              {"interrupted", r.interrupted},
              {"seconds", r.seconds},
              {"exact", r.exact}});
  return out;
}

}  // namespace

nlohmann::json to_json(const ImageRun& r, const DiffusionModel&) {
  std::vector<std::uint64_t> examined, kept;
  for (const StepStatistics& s : r.steps) {
    examined.push_back(s.examined);
    kept.push_back(s.kept);
  }
  nlohmann::json out = common_json(r);
  out.update({{"examined_by_step", examined},
              {"accepted_by_step", kept},
              {"efficiency", r.efficiency()},
              {"transitions", r.statistics.outputs},
              {"target_passes", r.calls},
              {"states", r.states}});
  return out;
}

nlohmann::json to_json(const ImageRun& r, const TokenImageModel&) {
  nlohmann::json out = common_json(r);
  out.update({{"acceptance", r.statistics.acceptance()},
              {"remerged", r.remerged},
              {"proposals", r.proposals},
              {"target_passes", r.passes},
              {"head_calls", r.head_calls},
              {"head_rows", r.head_rows},
              {"seconds_by_image", r.image_seconds}});
  return out;
}

std::string summary(const ImageRun& r, const DiffusionModel&) {
  const auto steps = static_cast<double>(r.steps.size());
  // Of images that were interrupted too.
  return fmt::format("{:.0f} steps in {:.1f} target calls an image: parallel efficiency {:.2f}",
                     steps, r.efficiency() > 0.0 ? steps / r.efficiency() : 0.0, r.efficiency());
}

std::string summary(const ImageRun& r, const TokenImageModel& model) {
  const double tau = r.statistics.tau();
  const auto tokens = static_cast<double>(model.tokens());
  std::string out = fmt::format("{:.0f} tokens in {:.1f} target passes an image: {:.2f} a pass",
                                tokens, tau > 0.0 ? tokens / tau : 0.0, tau);
  if (r.statistics.drafted > 0) {
    out += fmt::format(", {:.2f} of the tested drafts kept", r.statistics.acceptance());
  }
  return out;
}

}  // namespace forerun::cli
