#include "forerun/cli/token_images.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "forerun/cli/paths.h"

namespace forerun::cli {

TokenImageModel load_token_images(const RunFlags& f) {
  expect_path(f.model.path);
  set_threads(f.model.threads);
  TokenImageModel model = TokenImageModel::load(f.model.path, precision_of(f.model.precision));
  note_precision(model.chosen_precision());
  if (!f.images.options.vae.empty() && !model.latent()) {
    throw UsageError(
        fmt::format("--vae decodes latents; {} makes pixels: leave it out", f.model.path));
  }
  return model;
}

TokenImageOptions token_options(const RunFlags& f) {
  const TokenImageFlags& t = f.images.tokens;
  TokenImageOptions o = t.options;
  const auto rule = rule_from_name(f.draft.rule);
  if (!rule || !is_for_chains(*rule)) {
    throw UsageError(
        fmt::format("--rule {} is for other models; image tokens have stepwise and path (exact), "
                    "paper and code (INEXACT)",
                    f.draft.rule));
  }
  o.rule = *rule;
  o.variance = t.variance == "beta"        ? TokenVariance::kBeta
               : t.variance == "posterior" ? TokenVariance::kPosterior
                                           : TokenVariance::kCalibrated;
  o.final_step = t.final_step == "noisy" ? TokenFinalStep::kNoisy : TokenFinalStep::kTruncate;
  o.linear_guidance = t.guidance_schedule == "linear";
  o.steps = f.images.options.steps;
  o.guidance = f.images.options.guidance;
  o.batch_size = f.images.options.batch_size;
  o.vae = f.images.options.vae;
  o.max_draft = f.draft.max_draft.value_or(o.max_draft);
  o.fixed_draft = f.draft.fixed;
  o.seed = f.draft.seed;
  return o;
}

nlohmann::json token_settings(const TokenImageOptions& o) {
  return {{"steps", o.steps},
          {"guidance", o.guidance},
          {"guidance_schedule", o.linear_guidance ? "linear" : "constant"},
          {"variance", o.variance == TokenVariance::kBeta        ? "beta"
                       : o.variance == TokenVariance::kPosterior ? "posterior"
                                                                 : "calibrated"},
          {"final_step", o.final_step == TokenFinalStep::kNoisy ? "noisy" : "truncate"},
          {"token_temperature", o.temperature}};
}

nlohmann::json settings(const RunFlags& f, const TokenImageModel& model) {
  const TokenImageOptions o = token_options(f);
  nlohmann::json out = run_json(f, model.chosen_precision());
  out.update(token_settings(o));
  out.update({{"model_digest", model.digest()},
              {"classes", f.images.classes},
              {"prefill", o.prefill},
              {"batch_size", o.batch_size}});
  return out;
}

nlohmann::json to_json(const TokenImageRun& r) {
  nlohmann::json out = to_json(r.statistics);
  out.update({{"images", r.values.size()},
              {"interrupted", r.interrupted},
              {"acceptance", r.acceptance()},
              {"remerged", r.remerged},
              {"proposals", r.proposals},
              {"target_passes", r.passes},
              {"head_calls", r.head_calls},
              {"head_rows", r.head_rows},
              {"seconds", r.seconds},
              {"seconds_by_image", r.image_seconds},
              {"exact", r.exact}});
  return out;
}

std::string summary(const TokenImageRun& r, const TokenImageModel& model) {
  const double tau = r.statistics.tau();
  const auto tokens = static_cast<double>(model.tokens());
  std::string out = fmt::format("{:.0f} tokens in {:.1f} target passes an image: {:.2f} a pass",
                                tokens, tau > 0.0 ? tokens / tau : 0.0, tau);
  if (r.statistics.drafted > 0) {
    out += fmt::format(", {:.2f} of the tested drafts kept", r.acceptance());
  }
  return out;
}

}  // namespace forerun::cli
