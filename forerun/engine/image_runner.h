#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forerun/core/latent.h"
#include "forerun/engine/sample_runner.h"
#include "forerun/methods/diffusion/dit_target.h"
#include "forerun/methods/diffusion/latent_drafter.h"

namespace forerun {

/// What all images of a runner have in common.
struct ImageSetting {
  GuidedDit model;
  DdpmSchedule schedule;
  LatentRule rule;
  /// Makes what predicts transitions of the target; null: nothing is drafted.
  std::function<std::shared_ptr<const StepPredictor>(DitTarget&)> predictor;
  TargetCalls calls = TargetCalls::kOne;
  bool reuse = true;
  std::size_t max_draft = 63;  ///< drafted steps a round at most
  bool fixed_draft = false;
  std::size_t max_active = 0;  ///< images that run at a time; 0 = all
};

/// Samples images by diffusion. Previews are the target's predictions of the finished image.
class ImageRunner final : public SampleRunner<LatentSample, LatentDraft, DitTarget::Verified> {
 public:
  explicit ImageRunner(ImageSetting setting, Observer observer = {});

  DitTarget& target() noexcept { return target_; }
  const ImageSetting& setting() const noexcept { return setting_; }
  bool exact() const noexcept { return setting_.rule.exact(); }
  std::size_t outputs() const override {
    return static_cast<std::size_t>(setting_.schedule.steps());
  }
  /// What the target drew before drafting is an output and no draft.
  std::vector<Outcome> outcomes(const Round& round) const override;

 private:
  std::int64_t classes() const override { return setting_.model.config().classes; }
  LatentSample sample_of(RequestId id, const ImageRequest& r) const override;
  std::vector<float> values(const LatentSample& sample) const override { return sample.state(); }
  void begin(Image& image) const override;
  void run(std::span<LatentSample* const> samples, const Observer& observe) override;
  void learn(const Round& round) override;
  void preview(Image& image, std::size_t index, const Round& round,
               std::vector<Event>& events) const override;
  void forget(SequenceId id) override;

  ImageSetting setting_;
  DitTarget target_;
  std::optional<AdaptiveLatentDrafter> drafter_;
};

}  // namespace forerun
