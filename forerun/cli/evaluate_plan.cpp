#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "forerun/cli/evaluate.h"
#include "forerun/cli/token_images.h"

namespace forerun::cli {
namespace {

constexpr const char* kFormat = "forerun samples 1";

// A set and how it is sampled: the drafted one, or the one that it is compared with.
struct Drafted {
  std::string drafter, rule;
  std::string name() const {
    if (drafter == "none") return "plain";
    const std::string kind = drafter.substr(0, drafter.find(':'));
    return rule == "maximal" || rule == "stepwise" ? kind : kind + "-" + rule;
  }
};

// The other one first: differences are of the drafted set less the other.
std::vector<Drafted> sets_of(const EvaluatedRun& f, const std::string& exact_rule) {
  std::vector<Drafted> out;
  if (!f.against.empty()) out.push_back({f.against, exact_rule});
  out.push_back({f.run.draft.drafter, f.run.draft.rule});
  if (out.size() == 2 && out[0].name() == out[1].name()) {
    throw UsageError(
        fmt::format("--against {0} is what is sampled anyway; name another --drafter", f.against));
  }
  return out;
}

struct Shape {
  std::int64_t classes, side, channels;
  bool latent;
};

void expect_fit(const Shape& model, const ImageReference& reference, const EvaluatedRun& f) {
  if (model.latent) {
    throw UsageError(fmt::format(
        "{} makes latents: decode its images with `forerun generate --vae`, and give them as "
        "--images",
        f.run.model.path));
  }
  if (model.classes == static_cast<std::int64_t>(reference.classes().size()) &&
      model.side == reference.side() && model.channels == reference.channels()) {
    return;
  }
  throw UsageError(
      fmt::format("{} makes images of {} x {} with {} channels in {} classes, the classifier {} "
                  "reads {} x {} "
                  "with {} in {}: train one with `forerun train classifier --side {}`",
                  f.run.model.path, model.side, model.side, model.channels, model.classes,
                  f.classifier, reference.side(), reference.side(), reference.channels(),
                  reference.classes().size(), model.side));
}

nlohmann::json described(const Drafted& set, const ImageOptions& o, const DiffusionModel& model) {
  nlohmann::json out = step_settings(o, model);
  out.update(
      {{"format", kFormat}, {"model", model.digest()}, {"seed", o.seed}, {"drafter", set.drafter}});
  if (set.drafter == "none") return out;
  // As former versions wrote it, so that their folders are known again: 0 is adaptive.
  out["draft_length"] = o.fixed_draft ? o.max_draft + 1 : 0;
  if (!o.fixed_draft && o.max_draft != ImageOptions().max_draft) out["max_draft"] = o.max_draft;
  out["two_calls"] = o.two_calls;
  out["reuse"] = o.reuse;
  out["rule"] = set.rule;
  if (!o.relaxation.empty()) out["relaxation"] = o.relaxation;
  return out;
}

PlannedRun plan_of(const EvaluatedRun& f, const DiffusionModel& model) {
  const ImageOptions options = image_options(f.run, model);
  PlannedRun out{.plan = {.steps = options.steps, .batch_size = options.batch_size},
                 .settings = settings(f.run, model)};
  for (const Drafted& set : sets_of(f, "maximal")) {
    ImageOptions o = options;
    if (set.drafter != f.run.draft.drafter || set.rule != f.run.draft.rule) {
      o.relaxation.clear();
      o.rule = Rule::kMaximal;
    }
    const ImageDrafter drafter = ImageDrafter::load(set.drafter, model);
    out.plan.sets.push_back(
        {.name = set.name(),
         .exact = o.relaxation.empty(),
         .described = described(set, o, model),
         .sample = [model, drafter, o](std::uint32_t first, std::span<const std::int64_t> labels,
                                       const ImageListener& listener) mutable {
           o.first = first;
           const ImageRun run = forerun::generate_images(model, drafter, labels, o, listener);
           return SamplePlan::Ran{run.statistics.outputs, run.calls, run.interrupted};
         }});
  }
  return out;
}

PlannedRun plan_of(const EvaluatedRun& f, const TokenImageModel& model) {
  const TokenImageOptions options = token_options(f.run);
  PlannedRun out{.plan = {.steps = model.tokens(), .batch_size = options.batch_size},
                 .settings = settings(f.run, model)};
  for (const Drafted& set : sets_of(f, "stepwise")) {
    TokenImageOptions o = options;
    o.rule = *rule_from_name(set.rule);
    const TokenImageDrafter drafter = TokenImageDrafter::load(set.drafter, model);
    nlohmann::json all = token_settings(o);
    all.update({{"format", kFormat},
                {"model", model.digest()},
                {"seed", o.seed},
                {"drafter", set.drafter}});
    if (set.drafter != "none") {
      all.update({{"rule", set.rule},
                  {"max_draft", o.max_draft},
                  {"fixed_draft", o.fixed_draft},
                  {"prefill", o.prefill}});
    }
    out.plan.sets.push_back(
        {.name = set.name(),
         .exact = is_exact(o.rule),
         .described = std::move(all),
         .sample = [model, drafter, o](std::uint32_t first, std::span<const std::int64_t> labels,
                                       const ImageListener& listener) mutable {
           o.first = first;
           const TokenImageRun run =
               forerun::generate_token_images(model, drafter, labels, o, listener);
           return SamplePlan::Ran{run.statistics.outputs, run.statistics.rounds, run.interrupted};
         }});
  }
  return out;
}

template <class Model>
PlannedRun planned(const EvaluatedRun& f, const ImageReference& reference, const Model& model) {
  expect_fit({model.classes(), model.side(), model.channels(), model.latent()}, reference, f);
  PlannedRun out = plan_of(f, model);
  out.plan.count = f.run.images.count;
  out.plan.classes = model.classes();
  out.plan.keep = f.keep;
  return out;
}

}  // namespace

PlannedRun plan_samples(const EvaluatedRun& f, const ImageReference& reference) {
  if (is_token_image_model(f.run.model.path)) {
    return planned(f, reference, load_token_images(f.run));
  }
  return planned(f, reference, load_diffusion(f.run));
}

}  // namespace forerun::cli
