#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "forerun/api/access.h"
#include "forerun/api/diffusion_impl.h"
#include "forerun/core/tests_of_fit.h"
#include "forerun/image.h"
#include "forerun/models/vae/vae.h"

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

void check(const DiffusionModel& model, std::span<const std::int64_t> labels,
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
  if (!o.relaxation.empty() && o.relaxation.size() != static_cast<std::size_t>(o.steps)) {
    throw UsageError(fmt::format("a profile of {} steps, for {} steps of sampling: make one",
                                 o.relaxation.size(), o.steps));
  }
  for (const double l : o.relaxation) {
    if (!(l >= 0.0 && l <= 1.0)) throw UsageError("the relaxation of a step is 0 to 1");
  }
}

// Outcomes in which what the target drew before drafting is an output and no draft.
std::vector<Outcome> without_given(const ImageSampling::Round& round) {
  std::vector<Outcome> out(round.outcomes.begin(), round.outcomes.end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto given = static_cast<std::uint32_t>(round.drafts[i].given);
    out[i].drafted -= given;
    out[i].examined -= given;
    out[i].accepted -= given;
  }
  return out;
}

// A plain sample drafts nothing.
struct NoLatentDrafter {
  std::vector<LatentDraft> propose(std::span<LatentSample* const> samples) const {
    return std::vector<LatentDraft>(samples.size());
  }
  void observe(std::span<LatentSample* const>, const std::vector<LatentDraft>&,
               const DitTarget::Verified&, std::span<const Outcome>) const {}
};

// The decoder of a model of latents; found to be missing, or another's, before the work is done.
std::optional<VaeDecoder> decoder_of(const DiffusionModel& model, const ImageOptions& o) {
  if (!model.latent() || !o.pictures) return std::nullopt;
  std::string folder = o.vae;
  std::error_code ignored;
  const std::filesystem::path own = std::filesystem::path(model.path()) / "vae";  // a pipeline's
  if (folder.empty() && std::filesystem::exists(own / "config.json", ignored))
    folder = own.string();
  if (folder.empty()) {
    throw UsageError(
        fmt::format("the model's images are latents of {} channels: give --vae FOLDER to decode "
                    "them",
                    model.channels()));
  }
  VaeDecoder vae = load_vae(folder);
  if (vae.config.latent_channels != model.channels()) {
    throw UsageError(fmt::format("{} decodes latents of {} channels, the model's have {}", folder,
                                 vae.config.latent_channels, model.channels()));
  }
  return vae;
}

Image image_of(const Latent& values, const DitConfig& c, const std::optional<VaeDecoder>& vae) {
  const at::Tensor x = at::tensor(values, at::kFloat).view({1, c.channels, c.input, c.input});
  const at::Tensor bytes = image_bytes(vae ? decode(*vae, x) : x)[0];
  const auto* const from = bytes.const_data_ptr<std::uint8_t>();
  return {.width = bytes.size(1),
          .height = bytes.size(0),
          .channels = bytes.size(2),
          .pixels = {from, from + bytes.numel()}};
}

}  // namespace

ImageSampling::ImageSampling(const DiffusionModel& model, const ImageDrafter& drafter,
                             std::span<const std::int64_t> labels, const ImageOptions& options,
                             bool keep)
    : options_(options),
      schedule_(schedule_of(options)),
      labels_{.first = options.first, .labels = {labels.begin(), labels.end()}},
      model_(guided_model(model, options)),
      target_(model_, schedule_, labels_),
      rule_(options.relaxation.empty() ? LatentRule() : LatentRule(options.relaxation)) {
  check(model, labels, options);
  if (impl_of(drafter).predictor) {
    const TargetCalls calls = options.two_calls ? TargetCalls::kTwo : TargetCalls::kOne;
    LatentDrafter guesses(impl_of(drafter).predictor(target_), calls, target_, options.reuse);
    const std::size_t slots = std::size_t{options.max_draft} + 1;
    drafter_.emplace(adaptive(std::move(guesses), calls, slots, !options.fixed_draft));
  }
  if (options.first > std::numeric_limits<std::uint32_t>::max() - labels.size()) {
    throw UsageError("the places of images go to 2^32");
  }
  const auto size = static_cast<std::size_t>(model_.config().values());
  for (std::uint32_t i = 0; i < labels.size(); ++i) {
    const std::uint32_t place = options.first + i;
    samples_.emplace_back(options.seed, place, LatentSample::noise(options.seed, place, size),
                          static_cast<std::size_t>(options.steps), keep);
  }
}

bool ImageSampling::run(const ImageListener& listener,
                        const std::function<void(const Round&)>& each) {
  const auto start = std::chrono::steady_clock::now();
  bool interrupted = false;
  ImageProgress progress{.of_steps = samples_.size() * static_cast<std::uint64_t>(options_.steps),
                         .of_images = samples_.size()};
  const auto observe = [&](const Round& round) {
    const std::vector<Outcome> guessed = without_given(round);
    statistics_.add(guessed, round.seconds);
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const Outcome& o = guessed[i];
      progress.steps += o.emitted;
      progress.kept += o.accepted;
      progress.rejected += o.examined - o.accepted;
      progress.images += round.sequences[i]->done() ? 1 : 0;
    }
    if (each) each(round);
    if (drafter_) drafter_->learn(round, round.seconds);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    progress.seconds = seconds_;
    if (listener.on_progress) listener.on_progress(progress);
  };
  const auto go_on = [&] {
    interrupted = listener.go_on && !listener.go_on();
    return !interrupted;
  };
  const std::span<LatentSample> samples(samples_);
  if (drafter_) {
    speculate_some(samples, options_.batch_size, target_, *drafter_, rule_, go_on, observe);
  } else {
    NoLatentDrafter none;
    speculate_some(samples, options_.batch_size, target_, none, rule_, go_on, observe);
  }
  return !interrupted;
}

std::vector<ExaminedDraft> examined_drafts(const ImageSampling::Round& round) {
  std::vector<ExaminedDraft> out;
  for (std::size_t i = 0; i < round.sequences.size(); ++i) {
    const Outcome& o = round.outcomes[i];
    const std::size_t first = round.sequences[i]->step() - o.emitted;
    for (std::size_t j = round.drafts[i].given; j < o.examined; ++j) {
      const Gaussian target = round.verified.at(i, j);
      const Latent& draft = round.drafts[i].means[j];
      double squares = 0.0;
      for (std::size_t d = 0; d < draft.size(); ++d) {
        const double off = static_cast<double>(draft[d]) - static_cast<double>(target.mean[d]);
        squares += off * off;
      }
      const double delta = std::sqrt(squares) / target.sigma;
      out.push_back({.sample = i,
                     .step = first + j,
                     .kept = j < o.accepted,
                     .delta = std::isnan(delta) ? std::numeric_limits<double>::infinity() : delta});
    }
  }
  return out;
}

// Follows one sample.
class Tracer {
 public:
  Tracer(const ImageSampling& sampling, const DitConfig& config,
         const std::optional<VaeDecoder>& vae)
      : sampling_(sampling), config_(config), vae_(vae) {}

  void operator()(const ImageSampling::Round& round) {
    for (std::size_t i = 0; i < round.sequences.size(); ++i) {
      const LatentSample& sample = *round.sequences[i];
      if (sample.request() != followed_) continue;
      const Outcome& o = round.outcomes[i];
      const auto first = static_cast<std::uint32_t>(sample.step()) - o.emitted;
      const auto given = static_cast<std::uint32_t>(round.drafts[i].given);
      trace_.rounds.push_back({.first = first,
                               .given = given,
                               .drafted = o.drafted - given,
                               .kept = o.accepted - given,
                               .emitted = o.emitted});
      if (first < due_ && !sample.done()) continue;
      due_ = first +
             static_cast<std::uint32_t>(std::max<std::size_t>(sample.steps() / kPredictions, 1));
      // From the state that the round began with, which the first row of the pass read.
      Latent seen(before_.size());
      ddpm_predicted_x0(sampling_.schedule().step(first), before_,
                        values_of(round.verified.noise(i, 0)), seen);
      steps_.push_back(first);
      seen_.push_back(std::move(seen));
    }
    for (const LatentSample* sample : round.sequences) {
      if (sample->request() == followed_) before_ = sample->state();
    }
  }
  void begin(const LatentSample& sample) {
    followed_ = sample.request();
    before_ = sample.state();
  }

  ImageTrace finish() {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      trace_.predictions.push_back({steps_[i], image_of(seen_[i], config_, vae_)});
    }
    return std::move(trace_);
  }

 private:
  static constexpr std::size_t kPredictions = 15;
  const ImageSampling& sampling_;
  const DitConfig& config_;
  const std::optional<VaeDecoder>& vae_;
  ImageTrace trace_;
  Latent before_;
  std::uint32_t due_ = 0, followed_ = 0;
  std::vector<std::uint32_t> steps_;
  std::vector<Latent> seen_;
};

ImageRun generate_images(const DiffusionModel& model, const ImageDrafter& drafter,
                         std::span<const std::int64_t> labels, const ImageOptions& options,
                         const ImageListener& listener) {
  const DitConfig& c = impl_of(model).dit->config;
  const std::optional<VaeDecoder> vae = decoder_of(model, options);
  ImageSampling sampling(model, drafter, labels, options, false);
  ImageRun out;
  out.exact = sampling.rule().exact();
  out.steps.resize(static_cast<std::size_t>(options.steps));
  const bool drafts = impl_of(drafter).predictor != nullptr;
  const bool traced = options.trace && options.pictures;
  Tracer tracer(sampling, c, vae);
  tracer.begin(sampling.samples().front());
  std::map<std::uint32_t, Image> finished;  // by place
  out.interrupted = !sampling.run(listener, [&](const ImageSampling::Round& round) {
    if (traced) tracer(round);
    for (const LatentSample* sample : round.sequences) {
      if (!sample->done() || !options.pictures) continue;
      const auto at = finished.emplace(sample->request(), image_of(sample->state(), c, vae)).first;
      if (listener.on_image) listener.on_image(at->first, at->second);
    }
    for (const Outcome& o : round.outcomes) {
      // A round of two calls that had nothing left to draft made one.
      out.calls += options.two_calls && drafts && o.drafted > 0 ? 2 : 1;
    }
    for (const ExaminedDraft& d : examined_drafts(round)) {
      StepStatistics& s = out.steps[d.step];
      ++s.examined;
      s.kept += d.kept ? 1 : 0;
      s.overlap += 2.0 * normal_cdf(-0.5 * d.delta);
      if (!std::isfinite(d.delta)) continue;  // no draft that rule could keep, however relaxed
      s.noise_distance +=
          d.delta / sampling.schedule().step(static_cast<std::int64_t>(d.step)).kappa;
    }
  });
  out.statistics = sampling.statistics();
  out.states = sampling.target().states();
  out.seconds = sampling.seconds();
  for (const LatentSample& sample : sampling.samples()) {
    if (sample.done()) out.values.push_back(sample.state());
  }
  for (auto& [place, image] : finished) out.images.push_back(std::move(image));
  if (traced) out.trace = tracer.finish();
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
