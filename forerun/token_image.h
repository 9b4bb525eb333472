#pragma once

/// Image generation token by token: transformers whose tokens are vectors, each drawn by a small
/// diffusion head (MAR); causal ones with CSpD's drafting made exact, and the masked ones of the
/// publication, which draw several tokens a pass and take no drafter.

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
  /// @throws UsageError   a precision that cannot be had
  static TokenImageModel load(const std::string& path, PrecisionRequest precision = kAutoPrecision);

  std::int64_t tokens() const noexcept;  ///< of an image
  std::int64_t dim() const noexcept;     ///< numbers of a token
  /// Tokens come in a random order, and those of a step are drawn at once, given all before it: no
  /// prefix could be verified in one pass, so nothing is drafted.
  bool masked() const noexcept;

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
  double temperature = 1.0;  ///< times the noise of every inner step
  /// Masked form: passes of the backbone over an image, 1 to its tokens; 0: 64, or its tokens.
  std::uint32_t passes = 0;
  std::uint32_t prefill = 0;  ///< tokens that the target makes alone before any are drafted
};

/// As for Diffusion Transformers.
///
/// The image of a seed is the same for any batch and number of threads. It is that of plain
/// sampling where nothing is drafted, and where the drafter's chains are the target's own.
/// Otherwise it depends on the drafter, and on which tokens were drafted, so with adaptive lengths
/// on the clock; its law does not.
/// @throws UsageError  also for a rule that the drafter does not go with, and for a drafter of a
/// masked model
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
