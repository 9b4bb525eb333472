#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "forerun/engine/image_runner.h"
#include "forerun/engine/token_image_runner.h"
#include "forerun/models/dit/dit.h"
#include "forerun/models/mar/mar_network.h"
#include "forerun/models/mar/masked_network.h"
#include "forerun/token_image.h"

namespace forerun {

struct ImageModel::Impl {
  virtual ~Impl() = default;
  virtual std::string digest() const = 0;

  std::string path;
  ChosenPrecision precision;
  std::int64_t classes = 0, side = 0, channels = 0, parameters = 0;
};

struct DiffusionModel::Impl final : ImageModel::Impl {
  using Runner = ImageRunner;
  std::string digest() const override;

  DitDialect dialect = DitDialect::kReference;
  std::shared_ptr<const Dit> dit;
  std::shared_ptr<const Bf16Dit> packed;  ///< if it is to run in bf16
};

struct TokenImageModel::Impl final : ImageModel::Impl {
  using Runner = TokenImageRunner;
  std::string digest() const override;

  std::shared_ptr<const Mar> mar;
  std::shared_ptr<const MarNetwork> network;
  std::shared_ptr<const MaskedNetwork> masked;  ///< backbone of the masked form
};

struct ImageDrafter::Impl {
  /// Of Diffusion Transformers; null: nothing is drafted.
  std::function<std::shared_ptr<const StepPredictor>(DitTarget&)> predictor;
  bool self = false;                          ///< of image-token models: the target drafts
  std::shared_ptr<const MarNetwork> network;  ///< of cspd:FOLDER
};

inline HeadPrecision head_precision(Precision p) noexcept {
  return p == Precision::kBF16 ? HeadPrecision::kBF16 : HeadPrecision::kF32;
}

/// @throws UsageError  no classes, or one that the model lacks; places beyond 2^32
void check_labels(const ImageModel& model, std::span<const std::int64_t> labels,
                  const CommonImageOptions& options);
/// @throws UsageError  as above; options out of range, a drafter of another kind
void check_images(const DiffusionModel& model, const ImageDrafter& drafter,
                  std::span<const std::int64_t> labels, const ImageOptions& options);
void check_images(const TokenImageModel& model, const ImageDrafter& drafter,
                  std::span<const std::int64_t> labels, const TokenImageOptions& options);
/// What the images of such a run have in common.
/// @throws UsageError
ImageSetting image_setting(const DiffusionModel& model, const ImageDrafter& drafter,
                           const ImageOptions& options);
TokenImageSetting image_setting(const TokenImageModel& model, const ImageDrafter& drafter,
                                const TokenImageOptions& options);

/// A draft that a rule examined: the step it is of, and how far it was off.
struct ExaminedDraft {
  std::size_t sample;  ///< of the round
  std::size_t step;    ///< transition
  bool kept;
  double delta;  ///< distance of the means, in sigmas
  double keeps;  ///< probability that an exact rule of this kind keeps it
};
/// Those of a round, in the order of its samples.
std::vector<ExaminedDraft> examined_drafts(const ImageRunner::Round& round, const LatentRule& rule);

/// Adds a round to what a run tells of its kind.
/// @param traced  to the trace of the first image, too
void record(const ImageRunner::Round& round, const ImageRunner& runner, const ImageOptions& options,
            bool traced, ImageRun& run);
void record(const TokenImageRunner::Round& round, const TokenImageRunner& runner,
            const TokenImageOptions& options, bool traced, ImageRun& run);
/// What is known at its end.
void complete(ImageRunner& runner, ImageRun& run);
void complete(TokenImageRunner& runner, ImageRun& run);

}  // namespace forerun
