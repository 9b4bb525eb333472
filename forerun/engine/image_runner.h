#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forerun/core/latent.h"
#include "forerun/core/speculate.h"
#include "forerun/engine/runner.h"
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

/// An image to sample.
struct ImageRequest {
  std::int64_t label = 0;
  std::uint64_t seed = 0;
  std::uint32_t request = 0;  ///< separates the noise of images of one seed
  bool keep_states = false;   ///< all states stay with the sample, for certificates
  std::size_t previews = 0;   ///< about so many predictions of the finished image, 0 = none
  /// Noise from this transition on comes from another seed: LatentSample::resample_from.
  struct Resample {
    std::size_t step = 0;
    std::uint64_t seed = 0;
    std::vector<std::uint32_t> kept = {};
  };
  std::optional<Resample> resample = std::nullopt;
};

/// Samples images of one model and one setting. A step is one round: the running images are drafted
/// for, and verified in one pass. Not thread-safe.
class ImageRunner final : public Runner {
 public:
  using Round = forerun::Round<LatentSample, LatentDraft, DitTarget::Verified>;
  using Observer = std::function<void(const Round&)>;

  /// @param observer  sees every round
  explicit ImageRunner(ImageSetting setting, Observer observer = {});
  ImageRunner(const ImageRunner&) = delete;
  ImageRunner& operator=(const ImageRunner&) = delete;

  /// @throws std::invalid_argument  a class that the model lacks
  void submit(RequestId id, const ImageRequest& request);
  bool busy() const override { return !active_.empty() || !waiting_.empty(); }
  void step(std::vector<Event>& events) override;
  bool cancel(RequestId id, std::vector<Event>& events) override;

  DitTarget& target() noexcept { return target_; }
  const ImageSetting& setting() const noexcept { return setting_; }
  /// Outcomes of a round in which what the target drew before drafting is an output and no draft.
  static std::vector<Outcome> outcomes(const Round& round);
  /// The unfinished images that have been begun.
  std::vector<const LatentSample*> samples() const;

 private:
  struct Image {
    LatentSample sample;
    RunStatistics statistics;
    std::size_t previews;
    std::size_t due = 0;  // transition of the next preview
    Latent before;        // the state that the round began with, if there are previews
  };
  void finish(Image& image, std::vector<Event>& events) const;
  void preview(Image& image, std::size_t index, const Round& round,
               std::vector<Event>& events) const;

  ImageSetting setting_;
  DitTarget target_;
  std::optional<AdaptiveLatentDrafter> drafter_;
  Observer observer_;
  std::deque<std::unique_ptr<Image>> waiting_;
  std::vector<std::unique_ptr<Image>> active_;
};

}  // namespace forerun
