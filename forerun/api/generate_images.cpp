#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/diffusion_impl.h"
#include "forerun/api/pictures.h"
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

void check_images(const DiffusionModel& model, std::span<const std::int64_t> labels,
                  const ImageOptions& o) {
  constexpr std::size_t kMostDrafts = 1023, kMostImages = 1U << 20;
  if (labels.empty() || labels.size() > kMostImages) {
    throw UsageError(
        fmt::format("{} images: 1 to {} can be asked for", labels.size(), kMostImages));
  }
  for (const std::int64_t label : labels) {
    if (label >= 0 && label < model.classes()) continue;
    throw UsageError(fmt::format("class {}: the model has 0 to {}", label, model.classes() - 1));
  }
  if (o.first > std::numeric_limits<std::uint32_t>::max() - labels.size()) {
    throw UsageError("the places of images go to 2^32");
  }
  if (o.batch_size < 1) throw UsageError("samples: 1 or more images at a time");
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

ImageSampling::ImageSampling(const DiffusionModel& model, const ImageDrafter& drafter,
                             std::span<const std::int64_t> labels, const ImageOptions& options,
                             Extras extras)
    : extras_(std::move(extras)),
      runner_(image_setting(model, drafter, options),
              [this](const Round& round) { observe(round); }) {
  check_images(model, labels, options);
  progress_ = {.of_steps = labels.size() * static_cast<std::uint64_t>(options.steps),
               .of_images = labels.size()};
  for (std::uint32_t i = 0; i < labels.size(); ++i) {
    runner_.submit(i, {.label = labels[i],
                       .seed = options.seed,
                       .request = options.first + i,
                       .keep_states = extras_.keep_states,
                       .previews = i == 0 ? extras_.previews : 0,
                       .resample = extras_.resample});
  }
}

void ImageSampling::observe(const Round& round) {
  const std::vector<Outcome> drafted = ImageRunner::outcomes(round);
  statistics_.add(drafted, round.seconds);
  for (std::size_t i = 0; i < drafted.size(); ++i) {
    progress_.steps += drafted[i].emitted;
    progress_.kept += drafted[i].accepted;
    progress_.rejected += drafted[i].examined - drafted[i].accepted;
    progress_.images += round.sequences[i]->done() ? 1 : 0;
  }
  if (extras_.each) extras_.each(round);
}

bool ImageSampling::run(const ImageListener& listener) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Event> events;
  while (runner_.busy()) {
    if (listener.go_on && !listener.go_on()) return false;
    runner_.step(events);
    for (const Event& event : events) {
      if (extras_.on_event) extras_.on_event(event);
    }
    events.clear();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    progress_.seconds = seconds_;
    if (listener.on_progress) listener.on_progress(progress_);
  }
  return true;
}

std::vector<ExaminedDraft> examined_drafts(const ImageSampling::Round& round,
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

// The rounds of the sample with this request, for its trace.
void trace_round(const ImageSampling::Round& round, std::uint32_t request, ImageTrace& trace) {
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

ImageRun generate_images(const DiffusionModel& model, const ImageDrafter& drafter,
                         std::span<const std::int64_t> labels, const ImageOptions& options,
                         const ImageListener& listener) {
  constexpr std::size_t kPreviews = 15;
  const Pictures pictures({model.channels(), model.side()}, model.path(), options.vae,
                          options.pictures);
  ImageRun out;
  out.steps.resize(static_cast<std::size_t>(std::max<std::int64_t>(options.steps, 0)));
  const bool drafts = impl_of(drafter).predictor != nullptr;
  const bool traced = options.trace && options.pictures;
  const DdpmSchedule* schedule = nullptr;
  const LatentRule* rule = nullptr;
  const auto each = [&](const ImageSampling::Round& round) {
    if (traced) trace_round(round, options.first, out.trace);
    for (const Outcome& o : round.outcomes) {
      // A round of two calls that had nothing left to draft made one.
      out.calls += options.two_calls && drafts && o.drafted > 0 ? 2 : 1;
    }
    for (const ExaminedDraft& d : examined_drafts(round, *rule)) {
      StepStatistics& s = out.steps[d.step];
      ++s.examined;
      s.kept += d.kept ? 1 : 0;
      s.overlap += d.keeps;
      if (!std::isfinite(d.delta)) continue;  // no draft that rule could keep, however relaxed
      s.noise_distance += d.delta / schedule->step(static_cast<std::int64_t>(d.step)).kappa;
    }
  };
  std::map<RequestId, std::vector<float>> values;
  std::map<RequestId, Image> images;
  const auto on_event = [&](const Event& event) {
    if (const auto* seen = std::get_if<ImagePreview>(&event)) {
      out.trace.predictions.push_back(
          {static_cast<std::uint32_t>(seen->step), pictures.image(seen->values)});
    } else if (const auto* done = std::get_if<ImageFinished>(&event)) {
      values.emplace(done->id, done->values);
      if (!options.pictures) return;
      const Image& image = images.emplace(done->id, pictures.image(done->values)).first->second;
      if (listener.on_image) {
        listener.on_image(options.first + static_cast<std::uint32_t>(done->id), image);
      }
    }
  };
  ImageSampling sampling(model, drafter, labels, options,
                         {.previews = traced ? kPreviews : 0, .each = each, .on_event = on_event});
  schedule = &sampling.schedule();
  rule = &sampling.rule();
  out.exact = sampling.rule().exact();
  out.interrupted = !sampling.run(listener);
  out.statistics = sampling.statistics();
  out.states = sampling.runner().target().states();
  out.seconds = sampling.seconds();
  for (auto& [id, v] : values) out.values.push_back(std::move(v));
  for (auto& [id, image] : images) out.images.push_back(std::move(image));
  return out;
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
