#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "forerun/api/access.h"
#include "forerun/api/image_impl.h"
#include "forerun/core/tests_of_fit.h"
#include "forerun/image.h"

namespace forerun {
namespace {

DdpmSchedule schedule_of(const ImageOptions& o) {
  try {
    return DdpmSchedule({.steps = o.steps, .variance_share = o.variance_share, .eta = o.eta});
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
}

GuidedDit guided_model(const DiffusionModel& model, const ImageOptions& o) {
  try {
    const DiffusionModel::Impl& m = impl_of(model);
    // facebookresearch/DiT guides the first three channels of a latent's four.
    constexpr std::int64_t kReferences = 3;
    const bool three = m.dialect == DitDialect::kReference && model.channels() > kReferences;
    const std::int64_t channels = o.guided_channels == 0 && three ? kReferences : o.guided_channels;
    return {m.dit, {.scale = o.guidance, .channels = channels}, m.packed};
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
}

}  // namespace

void check_images(const DiffusionModel& model, const ImageDrafter& drafter,
                  std::span<const std::int64_t> labels, const ImageOptions& o) {
  constexpr std::size_t kMostDrafts = 1023;
  check_labels(model, labels, o);
  if (impl_of(drafter).self || impl_of(drafter).network) {
    throw UsageError(fmt::format("drafter {} is for image-token models; {} is none", drafter.name(),
                                 model.path()));
  }
  if (o.max_draft > kMostDrafts) {
    throw UsageError(
        fmt::format("{} drafts a round (max_draft): at most {}", o.max_draft, kMostDrafts));
  }
  if (!o.fixed_draft && o.two_calls) {
    throw UsageError(
        "two calls a round are for comparing with papers: give a fixed number of drafts "
        "(fixed_draft)");
  }
  if (o.rule != Rule::kMaximal && (o.rule != Rule::kBlock || !o.relaxation.empty())) {
    throw UsageError(
        fmt::format("rule {}: images are sampled by maximal, block, or maximal with a "
                    "relaxation",
                    name_of(o.rule)));
  }
  if (!o.relaxation.empty() && o.relaxation.size() != static_cast<std::size_t>(o.steps)) {
    throw UsageError(fmt::format("a profile of {} steps, for {} steps of sampling: make one",
                                 o.relaxation.size(), o.steps));
  }
  for (const double l : o.relaxation) {
    if (!(l >= 0.0 && l <= 1.0)) throw UsageError("the relaxation of a step is 0 to 1");
  }
}

ImageSetting image_setting(const DiffusionModel& model, const ImageDrafter& drafter,
                           const ImageOptions& o) {
  return {.model = guided_model(model, o),
          .schedule = schedule_of(o),
          .rule = o.rule == Rule::kBlock ? LatentRule::block() : LatentRule(o.relaxation),
          .predictor = impl_of(drafter).predictor,
          .calls = o.two_calls ? TargetCalls::kTwo : TargetCalls::kOne,
          .reuse = o.reuse,
          .max_draft = o.max_draft,
          .fixed_draft = o.fixed_draft,
          .max_active = o.batch_size};
}

std::vector<ExaminedDraft> examined_drafts(const ImageRunner::Round& round,
                                           const LatentRule& rule) {
  std::vector<ExaminedDraft> out;
  for (std::size_t i = 0; i < round.sequences.size(); ++i) {
    const Outcome& o = round.outcomes[i];
    const std::size_t first = round.sequences[i]->step() - o.emitted;
    const auto conditional = [&](std::size_t step) { return round.verified.at(i, step); };
    const auto keeps = rule.keeps(round.drafts[i], conditional, o.examined);
    for (std::size_t j = round.drafts[i].given; j < o.examined; ++j) {
      const Gaussian target = conditional(j);
      const LatentDraft& draft = round.drafts[i];
      const double delta =
          gaussian_step(target, {draft.means[j], target.sigma}, draft.values[j]).delta;
      out.push_back({.sample = i,
                     .step = first + j,
                     .kept = j < o.accepted,
                     .delta = delta,
                     .keeps = keeps[j]});
    }
  }
  return out;
}

namespace {

// The rounds of the sample with this request.
void trace_round(const ImageRunner::Round& round, std::uint32_t request, ImageTrace& trace) {
  for (std::size_t i = 0; i < round.sequences.size(); ++i) {
    const LatentSample& sample = *round.sequences[i];
    if (sample.request() != request) continue;
    const Outcome& o = round.outcomes[i];
    const auto given = static_cast<std::uint32_t>(round.drafts[i].given);
    trace.rounds.push_back({.first = static_cast<std::uint32_t>(sample.step()) - o.emitted,
                            .given = given,
                            .drafted = o.drafted - given,
                            .kept = o.accepted - given,
                            .emitted = o.emitted});
  }
}

}  // namespace

void record(const ImageRunner::Round& round, const ImageRunner& runner, const ImageOptions& options,
            bool traced, ImageRun& run) {
  const ImageSetting& setting = runner.setting();
  if (traced) trace_round(round, options.first, run.trace);
  for (const Outcome& o : round.outcomes) {
    // A round of two calls that had nothing left to draft made one.
    run.calls += options.two_calls && setting.predictor && o.drafted > 0 ? 2 : 1;
  }
  run.steps.resize(runner.outputs());
  for (const ExaminedDraft& d : examined_drafts(round, setting.rule)) {
    StepStatistics& s = run.steps[d.step];
    ++s.examined;
    s.kept += d.kept ? 1 : 0;
    s.overlap += d.keeps;
    if (!std::isfinite(d.delta)) continue;  // no draft that rule could keep, however relaxed
    s.noise_distance += d.delta / setting.schedule.step(static_cast<std::int64_t>(d.step)).kappa;
  }
}

void complete(ImageRunner& runner, ImageRun& run) {
  run.steps.resize(runner.outputs());
  run.states = runner.target().states();
}

std::vector<double> relaxed_profile(const ImageRun& run) {
  constexpr std::ptrdiff_t kWindow = 10;  // on either side
  const auto n = static_cast<std::ptrdiff_t>(run.steps.size());
  std::vector<double> smooth(run.steps.size(), 0.0);
  double last = 0.0;
  for (std::ptrdiff_t k = 0; k < n; ++k) {
    double sum = 0.0, count = 0.0;
    for (std::ptrdiff_t j = std::max<std::ptrdiff_t>(0, k - kWindow);
         j <= std::min(n - 1, k + kWindow); ++j) {
      sum += run.steps[static_cast<std::size_t>(j)].noise_distance;
      count += static_cast<double>(run.steps[static_cast<std::size_t>(j)].examined);
    }
    if (count > 0.0) last = sum / count;
    smooth[static_cast<std::size_t>(k)] = last;
  }
  // Pool adjacent violators: the rising curve that is nearest.
  struct Pool {
    double mean, weight;
  };
  std::vector<Pool> pools;
  for (const double x : smooth) {
    pools.push_back({x, 1.0});
    while (pools.size() > 1 && pools[pools.size() - 2].mean >= pools.back().mean) {
      const Pool b = pools.back();
      pools.pop_back();
      Pool& a = pools.back();
      a.mean = (a.mean * a.weight + b.mean * b.weight) / (a.weight + b.weight);
      a.weight += b.weight;
    }
  }
  std::vector<double> out;
  for (const Pool& p : pools) {
    const double l = p.mean > 0.0 ? pools.front().mean / p.mean : 1.0;
    out.insert(out.end(), static_cast<std::size_t>(p.weight), l);
  }
  return out;
}

}  // namespace forerun
