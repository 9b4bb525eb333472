#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "forerun/cli/evaluate.h"

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

void expect_fit(const ImageModel& model, const ImageReference& reference, const EvaluatedRun& f) {
  if (model.latent()) {
    throw UsageError(fmt::format(
        "{} makes latents: decode its images with `forerun generate --vae`, and give them as "
        "--images",
        f.run.model.path));
  }
  if (model.classes() == static_cast<std::int64_t>(reference.classes().size()) &&
      model.side() == reference.side() && model.channels() == reference.channels()) {
    return;
  }
  throw UsageError(
      fmt::format("{} makes images of {} x {} with {} channels in {} classes, the classifier {} "
                  "reads {} x {} "
                  "with {} in {}: train one with `forerun train classifier --side {}`",
                  f.run.model.path, model.side(), model.side(), model.channels(), model.classes(),
                  f.classifier, reference.side(), reference.side(), reference.channels(),
                  reference.classes().size(), model.side()));
}

// How a set was drafted, as its folder's settings say it.
nlohmann::json drafting_json(const ImageOptions& o) {
  nlohmann::json out = {{"two_calls", o.two_calls},
                        {"reuse", o.reuse},
                        // As former versions wrote it, so that their folders are known again: 0 is
                        // adaptive.
                        {"draft_length", o.fixed_draft ? o.max_draft + 1 : 0}};
  if (!o.fixed_draft && o.max_draft != ImageOptions().max_draft) out["max_draft"] = o.max_draft;
  if (!o.relaxation.empty()) out["relaxation"] = o.relaxation;
  return out;
}

nlohmann::json drafting_json(const TokenImageOptions& o) {
  return {{"max_draft", o.max_draft}, {"fixed_draft", o.fixed_draft}, {"prefill", o.prefill}};
}

template <class AnyModel>
nlohmann::json described_set(const Drafted& set, const typename AnyModel::Options& o,
                             const AnyModel& model) {
  nlohmann::json out = step_settings(o, model);
  out.update(
      {{"format", kFormat}, {"model", model.digest()}, {"seed", o.seed}, {"drafter", set.drafter}});
  if (set.drafter == "none") return out;
  out.update(drafting_json(o));
  out["rule"] = set.rule;
  return out;
}

void make_exact(ImageOptions& o) {
  o.rule = Rule::kMaximal;
  o.relaxation.clear();
}
void make_exact(TokenImageOptions& o) { o.rule = Rule::kStepwise; }
bool exact(const ImageOptions& o) { return o.relaxation.empty(); }
bool exact(const TokenImageOptions& o) { return is_exact(o.rule); }
std::int64_t outputs_of(const ImageOptions& o, const DiffusionModel&) { return o.steps; }
std::int64_t outputs_of(const TokenImageOptions&, const TokenImageModel& m) { return m.tokens(); }

template <class AnyModel>
PlannedRun plan_of(const EvaluatedRun& f, const ImageReference& reference, const AnyModel& model) {
  expect_fit(model, reference, f);
  const auto options = image_options(f.run, model);
  auto plain = options;
  make_exact(plain);
  PlannedRun out{.plan = {.sets = {},
                          .count = f.run.images.count,
                          .classes = model.classes(),
                          .steps = outputs_of(options, model),
                          .batch_size = options.batch_size,
                          .keep = f.keep},
                 .settings = settings(f.run, model)};
  for (const Drafted& set : sets_of(f, std::string(name_of(plain.rule)))) {
    const bool own = set.drafter == f.run.draft.drafter && set.rule == f.run.draft.rule;
    const auto& o = own ? options : plain;
    const ImageDrafter drafter = ImageDrafter::load(set.drafter, model);
    out.plan.sets.push_back(
        {.name = set.name(),
         .exact = exact(o),
         .described = described_set(set, o, model),
         .sample = [model, drafter, o](std::uint32_t first, std::span<const std::int64_t> labels,
                                       const ImageListener& listener) {
           auto part = o;
           part.first = first;
           const ImageRun run = forerun::generate_images(model, drafter, labels, part, listener);
           return SamplePlan::Ran{run.statistics.outputs, run.calls, run.interrupted};
         }});
  }
  return out;
}

}  // namespace

PlannedRun plan_samples(const EvaluatedRun& f, const ImageReference& reference) {
  return with_image_model(f.run, [&](const auto& model) { return plan_of(f, reference, model); });
}

}  // namespace forerun::cli
