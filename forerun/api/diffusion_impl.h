#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forerun/engine/image_runner.h"
#include "forerun/image.h"
#include "forerun/methods/diffusion/latent_drafter.h"
#include "forerun/models/dit/dit.h"

namespace forerun {

struct DiffusionModel::Impl {
  std::string path;
  DitDialect dialect;
  std::shared_ptr<const Dit> dit;
  std::shared_ptr<const Bf16Dit> packed;  ///< if it is to run in bf16
  ChosenPrecision precision;
};

struct ImageDrafter::Impl {
  /// Null: nothing is drafted.
  std::function<std::shared_ptr<const StepPredictor>(DitTarget&)> predictor;
};

/// One run of sampling: a loop over the steps of an ImageRunner.
class ImageSampling {
 public:
  using Round = ImageRunner::Round;
  struct Extras {
    bool keep_states = false;
    std::size_t previews = 0;  ///< of the first image
    std::optional<ImageRequest::Resample> resample = std::nullopt;
    std::function<void(const Round&)> each = {};      ///< sees every round
    std::function<void(const Event&)> on_event = {};  ///< an image's id is its index in `labels`
  };
  /// @throws UsageError
  ImageSampling(const DiffusionModel& model, const ImageDrafter& drafter,
                std::span<const std::int64_t> labels, const ImageOptions& options, Extras extras);
  ImageSampling(const ImageSampling&) = delete;
  ImageSampling& operator=(const ImageSampling&) = delete;

  /// Runs to the end, or until the listener says so.
  /// @return  false if it was interrupted
  bool run(const ImageListener& listener);

  ImageRunner& runner() noexcept { return runner_; }
  const DdpmSchedule& schedule() const noexcept { return runner_.setting().schedule; }
  const LatentRule& rule() const noexcept { return runner_.setting().rule; }
  const RunStatistics& statistics() const noexcept { return statistics_; }
  double seconds() const noexcept { return seconds_; }

 private:
  void observe(const Round& round);

  Extras extras_;
  RunStatistics statistics_;
  ImageProgress progress_;
  double seconds_ = 0.0;
  ImageRunner runner_;
};

/// @throws UsageError  classes or options out of range
void check_images(const DiffusionModel& model, std::span<const std::int64_t> labels,
                  const ImageOptions& options);
/// What the images of such a run have in common.
/// @throws UsageError
ImageSetting image_setting(const DiffusionModel& model, const ImageDrafter& drafter,
                           const ImageOptions& options);

/// A draft that a rule examined: the step it is of, and how far it was off.
struct ExaminedDraft {
  std::size_t sample;  ///< of the round
  std::size_t step;    ///< transition
  bool kept;
  double delta;  ///< distance of the means, in sigmas
  double keeps;  ///< probability that an exact rule of this kind keeps it
};
/// Those of a round, in the order of its samples.
std::vector<ExaminedDraft> examined_drafts(const ImageSampling::Round& round,
                                           const LatentRule& rule);

}  // namespace forerun
