#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

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

/// The parts of one run of sampling. What refers to each other stays where it is.
class ImageSampling {
 public:
  /// @throws UsageError
  ImageSampling(const DiffusionModel& model, const ImageDrafter& drafter,
                std::span<const std::int64_t> labels, const ImageOptions& options, bool keep);
  ImageSampling(const ImageSampling&) = delete;
  ImageSampling& operator=(const ImageSampling&) = delete;

  using Round = forerun::Round<LatentSample, LatentDraft, DitTarget::Verified>;
  /// Runs to the end, or until the listener says so; `each` sees every round.
  /// @return  false if it was interrupted
  bool run(const ImageListener& listener, const std::function<void(const Round&)>& each);

  DitTarget& target() noexcept { return target_; }
  const DdpmSchedule& schedule() const noexcept { return schedule_; }
  const LatentRule& rule() const noexcept { return rule_; }
  const std::vector<LatentSample>& samples() const noexcept { return samples_; }
  std::vector<LatentSample>& samples() noexcept { return samples_; }
  const RunStatistics& statistics() const noexcept { return statistics_; }
  double seconds() const noexcept { return seconds_; }

 private:
  ImageOptions options_;
  DdpmSchedule schedule_;
  ImageLabels labels_;
  GuidedDit model_;
  DitTarget target_;
  LatentRule rule_;
  std::optional<AdaptiveLatentDrafter> drafter_;
  std::vector<LatentSample> samples_;
  RunStatistics statistics_;
  double seconds_ = 0.0;
};

/// A draft that a rule examined: the step it is of, and how far it was off.
struct ExaminedDraft {
  std::size_t sample;  ///< of the round
  std::size_t step;    ///< transition
  bool kept;
  double delta;  ///< distance of the means, in sigmas
};
/// Those of a round, in the order of its samples.
std::vector<ExaminedDraft> examined_drafts(const ImageSampling::Round& round);

}  // namespace forerun
