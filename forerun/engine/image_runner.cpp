#include "forerun/engine/image_runner.h"

#include <ATen/ATen.h>

#include <utility>

#include "forerun/core/rng_key.h"

namespace forerun {

ImageRunner::ImageRunner(ImageSetting setting, Observer observer)
    : SampleRunner(setting.max_active, std::move(observer)),
      setting_(std::move(setting)),
      target_(setting_.model, setting_.schedule) {
  if (!setting_.predictor) return;
  LatentDrafter drafter(setting_.predictor(target_), setting_.calls, target_, setting_.reuse);
  drafter_.emplace(
      adaptive(std::move(drafter), setting_.calls, setting_.max_draft + 1, !setting_.fixed_draft));
}

LatentSample ImageRunner::sample_of(RequestId id, const ImageRequest& r) const {
  const auto size = static_cast<std::size_t>(setting_.model.config().values());
  LatentSample sample(r.seed, r.request, LatentSample::noise(r.seed, r.request, size), outputs(),
                      r.keep, r.label, id);
  if (r.resample) sample.resample_from(r.resample->step, r.resample->seed, r.resample->kept);
  return sample;
}

void ImageRunner::begin(Image& image) const {
  if (image.previews > 0) image.before = image.sample.state();
}

void ImageRunner::run(std::span<LatentSample* const> samples, const Observer& observe) {
  speculate(samples, target_, drafter_, setting_.rule, observe);
}

void ImageRunner::learn(const Round& round) {
  if (drafter_) drafter_->learn(round, round.seconds);
}

std::vector<Outcome> ImageRunner::outcomes(const Round& round) const {
  std::vector<Outcome> out = SampleRunner::outcomes(round);
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
  const std::size_t first = image.sample.step() - round.outcomes[index].emitted;
  if (!due(image, first, image.sample.done())) return;
  ImagePreview out{.id = image.sample.id(), .step = first, .values = Latent(image.before.size())};
  ddpm_predicted_x0(setting_.schedule.step(static_cast<std::int64_t>(first)), image.before,
                    values_of(round.verified.noise(index, 0)), out.values);
  events.emplace_back(std::move(out));
}

void ImageRunner::forget(SequenceId id) {
  if (drafter_) drafter_->forget(id);
}

}  // namespace forerun
