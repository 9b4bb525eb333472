#include "forerun/engine/image_runner.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "forerun/base/interrupted.h"
#include "forerun/core/rng_key.h"

namespace forerun {
namespace {

// A plain sample drafts nothing.
struct NoLatentDrafter {
  std::vector<LatentDraft> propose(std::span<LatentSample* const> samples) const {
    return std::vector<LatentDraft>(samples.size());
  }
  void observe(std::span<LatentSample* const>, const std::vector<LatentDraft>&,
               const DitTarget::Verified&, std::span<const Outcome>) const {}
};

}  // namespace

ImageRunner::ImageRunner(ImageSetting setting, Observer observer)
    : setting_(std::move(setting)),
      target_(setting_.model, setting_.schedule),
      observer_(std::move(observer)) {
  if (!setting_.predictor) return;
  LatentDrafter drafter(setting_.predictor(target_), setting_.calls, target_, setting_.reuse);
  drafter_.emplace(
      adaptive(std::move(drafter), setting_.calls, setting_.max_draft + 1, !setting_.fixed_draft));
}

void ImageRunner::submit(RequestId id, const ImageRequest& r) {
  const DitConfig& c = setting_.model.config();
  if (r.label < 0 || r.label >= c.classes) {
    throw std::invalid_argument(
        fmt::format("class {}: the model has 0 to {}", r.label, c.classes - 1));
  }
  LatentSample sample(r.seed, r.request,
                      LatentSample::noise(r.seed, r.request, static_cast<std::size_t>(c.values())),
                      static_cast<std::size_t>(setting_.schedule.steps()), r.keep_states, r.label,
                      id);
  if (r.resample) sample.resample_from(r.resample->step, r.resample->seed, r.resample->kept);
  waiting_.push_back(std::make_unique<Image>(
      Image{.sample = std::move(sample), .statistics = {}, .previews = r.previews, .before = {}}));
}

void ImageRunner::step(std::vector<Event>& events) {
  const c10::InferenceMode no_autograd;
  while (!waiting_.empty() && (setting_.max_active == 0 || active_.size() < setting_.max_active)) {
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  if (active_.empty()) return;
  std::vector<LatentSample*> samples;
  for (const auto& image : active_) {
    samples.push_back(&image->sample);
    if (image->previews > 0) image->before = image->sample.state();
  }
  const auto observe = [&](const Round& round) {
    const std::vector<Outcome> drafted = outcomes(round);
    const auto n = static_cast<double>(active_.size());
    const Timings share{.drafter = round.seconds.drafter / n,
                        .target = round.seconds.target / n,
                        .rest = round.seconds.rest / n};
    for (std::size_t i = 0; i < active_.size(); ++i) {
      active_[i]->statistics.add({&drafted[i], 1}, share);
      preview(*active_[i], i, round, events);
    }
    if (observer_) observer_(round);
    if (drafter_) drafter_->learn(round, round.seconds);
  };
  const std::span<LatentSample* const> all(samples);
  try {
    if (drafter_) {
      speculate_round<LatentSample>(all, target_, *drafter_, setting_.rule, observe);
    } else {
      NoLatentDrafter none;
      speculate_round<LatentSample>(all, target_, none, setting_.rule, observe);
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {  // images share their passes: nobody can tell whose it was
    for (const auto& image : active_) {
      if (drafter_) drafter_->forget(image->sample.id());
      events.emplace_back(Failed{image->sample.id(), e.what()});
    }
    active_.clear();
    return;
  }
  for (const auto& image : active_) {
    if (image->sample.done()) finish(*image, events);
  }
  std::erase_if(active_, [](const auto& image) { return image->sample.done(); });
}

std::vector<Outcome> ImageRunner::outcomes(const Round& round) {
  std::vector<Outcome> out(round.outcomes.begin(), round.outcomes.end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto given = static_cast<std::uint32_t>(round.drafts[i].given);
    out[i].drafted -= given;
    out[i].examined -= given;
    out[i].accepted -= given;
  }
  return out;
}

// The target's predicted x0 for the state that the round began with: the first row of the pass.
void ImageRunner::preview(Image& image, std::size_t index, const Round& round,
                          std::vector<Event>& events) const {
  if (image.previews == 0) return;
  const std::size_t first = image.sample.step() - round.outcomes[index].emitted;
  if (first < image.due && !image.sample.done()) return;
  image.due = first + std::max<std::size_t>(image.sample.steps() / image.previews, 1);
  ImagePreview out{.id = image.sample.id(), .step = first, .values = Latent(image.before.size())};
  ddpm_predicted_x0(setting_.schedule.step(static_cast<std::int64_t>(first)), image.before,
                    values_of(round.verified.noise(index, 0)), out.values);
  events.emplace_back(std::move(out));
}

void ImageRunner::finish(Image& image, std::vector<Event>& events) const {
  events.emplace_back(ImageFinished{.id = image.sample.id(),
                                    .steps = image.sample.step(),
                                    .complete = image.sample.done(),
                                    .values = image.sample.state(),
                                    .statistics = std::move(image.statistics)});
}

bool ImageRunner::cancel(RequestId id, std::vector<Event>& events) {
  const auto take = [&](auto& images) {
    const auto at = std::find_if(images.begin(), images.end(),
                                 [&](const auto& i) { return i->sample.id() == id; });
    if (at == images.end()) return false;
    finish(**at, events);
    if (drafter_) drafter_->forget(id);
    images.erase(at);
    return true;
  };
  return take(active_) || take(waiting_);
}

std::vector<const LatentSample*> ImageRunner::samples() const {
  std::vector<const LatentSample*> out;
  for (const auto& image : active_) out.push_back(&image->sample);
  return out;
}

}  // namespace forerun
