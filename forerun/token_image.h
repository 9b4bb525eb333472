#pragma once

/// Image generation token by token: causal transformers whose tokens are vectors, each drawn by a
/// small diffusion head (MAR), with CSpD's drafting made exact.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "forerun/image.h"

#pragma GCC visibility push(default)
namespace forerun {

/// A transformer of image tokens with a diffusion head.
class TokenImageModel : public ImageModel {
 public:
  using Options = TokenImageOptions;
  /// A folder that `train_mar` made, or the converter of published checkpoints.
  /// @param precision  of the diffusion head, which does most of the work; float32 or bf16
  /// @throws FormatError  the path, then what is wrong
  /// @throws UsageError   the masked form, whose tokens see later ones: it cannot be drafted for;
  /// a precision that cannot be had
  static TokenImageModel load(const std::string& path,
                              PrecisionRequest precision = Precision::kF32);

  std::int64_t tokens() const noexcept;  ///< of an image
  std::int64_t dim() const noexcept;     ///< numbers of a token

  struct Impl;

 private:
  explicit TokenImageModel(std::shared_ptr<const Impl> impl);
};

/// True if `path` holds a transformer of image tokens; reads its config only.
bool is_token_image_model(const std::string& path) noexcept;

/// Variance of a token's inner steps (models/mar/mar_schedule.h).
enum class TokenVariance : std::uint8_t { kCalibrated, kBeta, kPosterior };
/// How a token's chain of inner steps ends. The published sampler's last step adds no noise, so its
/// tokens have no density and nothing drafted can be kept exactly.
enum class TokenFinalStep : std::uint8_t {
  kTruncate,  ///< the token is the state before that step, 44 dB from it; one step less
  kNoisy,     ///< that step adds noise as the others do
};

/// How images are sampled token by token. Rules kStepwise and kPath are exact; kPaper and kCode are
/// CSpD as published, INEXACT. A token has 2 noise levels or more.
struct TokenImageOptions : CommonImageOptions {
  TokenImageOptions() {
    steps = 25;
    guidance = 1.0;
    max_draft = 8;
    rule = Rule::kStepwise;
  }
  bool linear_guidance = false;  ///< it rises along the image, as in MAR; false: constant
  TokenVariance variance = TokenVariance::kCalibrated;
  TokenFinalStep final_step = TokenFinalStep::kTruncate;
  double temperature = 1.0;   ///< times the noise of every inner step
  std::uint32_t prefill = 0;  ///< tokens that the target makes alone before any are drafted
};

/// As for Diffusion Transformers.
///
/// The image of a seed is the same for any batch and number of threads. It is that of plain
/// sampling where nothing is drafted, and where the drafter's chains are the target's own.
/// Otherwise it depends on the drafter, and on which tokens were drafted, so with adaptive lengths
/// on the clock; its law does not.
/// @throws UsageError  also for a rule that the drafter does not go with
ImageRun generate_images(const TokenImageModel& model, const ImageDrafter& drafter,
                         std::span<const std::int64_t> labels, const TokenImageOptions& options,
                         const ImageListener& listener = {});

/// Samples and scores every inner step of the emitted chains again by plain passes.
/// @param counterfactuals  inner steps to sample again, at most
Certificate certify_images(const TokenImageModel& model, const ImageDrafter& drafter,
                           std::span<const std::int64_t> labels, const TokenImageOptions& options,
                           const ImageListener& listener = {}, std::size_t counterfactuals = 16);

}  // namespace forerun
#pragma GCC visibility pop
