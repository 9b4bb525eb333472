#pragma once

/// Image generation token by token: causal transformers whose tokens are vectors, each drawn by a
/// small diffusion head (MAR), with CSpD's drafting made exact.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forerun/common.h"
#include "forerun/core/draft_length_report.h"
#include "forerun/core/rule.h"
#include "forerun/core/statistics.h"
#include "forerun/formats/image.h"
#include "forerun/image.h"

#pragma GCC visibility push(default)
namespace forerun {

/// True if `path` holds a transformer of image tokens; reads its config only.
bool is_token_image_model(const std::string& path) noexcept;

/// A transformer of image tokens with a diffusion head. Copies share it.
class TokenImageModel {
 public:
  /// A folder that `train_mar` made, or the converter of published checkpoints.
  /// @param precision  of the diffusion head, which does most of the work; float32 or bf16
  /// @throws FormatError  the path, then what is wrong
  /// @throws UsageError   the masked form, whose tokens see later ones: it cannot be drafted for;
  /// a precision that cannot be had
  static TokenImageModel load(const std::string& path,
                              PrecisionRequest precision = Precision::kF32);

  const std::string& path() const noexcept;
  std::int64_t classes() const noexcept;
  std::int64_t side() const noexcept;      ///< of its images, or of their latents
  std::int64_t channels() const noexcept;  ///< of these
  std::int64_t tokens() const noexcept;    ///< of an image
  std::int64_t dim() const noexcept;       ///< numbers of a token
  std::int64_t parameters() const noexcept;
  std::string digest() const;  ///< a hash of the model's weights
  Precision precision() const noexcept;
  const ChosenPrecision& chosen_precision() const noexcept;  ///< the same, with the reason
  bool latent() const noexcept;                              ///< its images need a VAE to decode

  struct Impl;

 private:
  friend struct Access;
  explicit TokenImageModel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// A drafter of the target's next tokens.
class TokenImageDrafter {
 public:
  /// none; self (the target, by coupled Jacobi iteration); cspd:FOLDER (a smaller model), computed
  /// in the target's precision
  /// @throws UsageError   another name; a model of other tokens, or made for another target
  /// @throws FormatError  a folder that holds no such model
  static TokenImageDrafter load(const std::string& name, const TokenImageModel& target);
  const std::string& name() const noexcept { return name_; }
  /// Multiply-adds of a drafted token over those of a token of the target.
  double cost() const noexcept { return cost_; }

  struct Impl;

 private:
  friend struct Access;
  std::string name_;
  double cost_ = 0.0;
  std::shared_ptr<const Impl> impl_;
};

/// Variance of a token's inner steps (models/mar/mar_schedule.h).
enum class TokenVariance : std::uint8_t { kCalibrated, kBeta, kPosterior };
/// How a token's chain of inner steps ends. The published sampler's last step adds no noise, so its
/// tokens have no density and nothing drafted can be kept exactly.
enum class TokenFinalStep : std::uint8_t {
  kTruncate,  ///< the token is the state before that step, 44 dB from it; one step less
  kNoisy,     ///< that step adds noise as the others do
};

/// How images are sampled.
struct TokenImageOptions {
  // The target, for plain sampling and for drafts alike.
  std::int64_t steps = 25;       ///< noise levels of a token, 2 to 1,000
  double guidance = 1.0;         ///< classifier-free; 1: none, at half the cost
  bool linear_guidance = false;  ///< it rises along the image, as in MAR; false: constant
  TokenVariance variance = TokenVariance::kCalibrated;
  TokenFinalStep final_step = TokenFinalStep::kTruncate;
  double temperature = 1.0;  ///< times the noise of every inner step

  std::uint64_t seed = 0;
  std::uint32_t first = 0;      ///< place of the first image, for a part of a larger run
  std::size_t batch_size = 16;  ///< images at a time; no image depends on it

  /// kStepwise and kPath are exact; kPaper and kCode are CSpD as published, INEXACT.
  Rule rule = Rule::kStepwise;
  std::uint32_t max_draft = 8;  ///< drafted tokens a round at most; 0 = plain sampling
  /// Always draft that many. False: as many as make sampling fastest, measured (ImageOptions).
  bool fixed_draft = false;
  std::uint32_t prefill = 0;  ///< tokens that the target makes alone before any are drafted

  std::string vae;       ///< folder of the decoder, for models of latents
  bool pictures = true;  ///< false: values alone are kept, which needs no decoder
  bool trace = false;    ///< keep the trace of the first image
};

/// How the first image came about.
struct TokenImageTrace {
  enum class Fate : std::uint8_t {
    kKept,      ///< a draft whose chain never parted from the target's
    kRemerged,  ///< a draft whose chain parted, met the target's again, and was kept
    kRejected,  ///< the target's chain, which ended apart from the draft's
    kOwn,       ///< drawn by the target without a draft
  };
  struct Token {
    std::uint32_t round = 0, place = 0;  ///< patch of the image, by rows
    Fate fate = Fate::kOwn;
    /// The states of the target's chain and of the draft's, in two dimensions: along the way from
    /// start to end, and where the two differ most. [inner steps + 1]
    std::vector<std::pair<float, float>> chain, draft;
    std::vector<std::uint8_t> together;  ///< by inner step
  };
  struct Round {
    std::uint32_t first = 0, drafted = 0, kept = 0, emitted = 0;
  };
  struct Partial {
    std::uint32_t tokens = 0;
    Image image;
  };
  std::int64_t side = 0;  ///< tokens in a row of the image
  std::vector<Token> tokens;
  std::vector<Round> rounds;
  std::vector<Partial> images;  ///< about 16
};

struct TokenImageRun {
  /// Finished ones, in the requested order; of an interrupted run a biased sample (ImageRun).
  std::vector<Image> images;
  std::vector<std::vector<float>> values;  ///< pixels in [-1, 1] before rounding, or latents
  RunStatistics statistics;                ///< outputs are tokens
  std::uint64_t remerged = 0;   ///< of the kept drafts: their chains had parted and met again
  std::uint64_t proposals = 0;  ///< rule path: chains drawn after rejections
  std::uint64_t passes = 0;     ///< of the target's backbone, each for all images of a batch
  std::uint64_t head_calls = 0, head_rows = 0;  ///< of the target's head, in sequence; inner steps
  TokenImageTrace trace;                        ///< if requested
  std::optional<DraftLengthReport> draft_length;
  std::vector<double> image_seconds;  ///< of each image, its share of rounds with others
  double seconds = 0.0;
  bool exact = true, interrupted = false;

  /// Of the drafts that were tested.
  double acceptance() const noexcept;
};

/// Samples an image of each class in `labels`, as generate_images does.
///
/// The image of a seed is the same for any batch and number of threads. It is that of plain
/// sampling where nothing is drafted, and where the drafter's chains are the target's own.
/// Otherwise it depends on the drafter, and on which tokens were drafted, so with adaptive lengths
/// on the clock; its law does not.
/// @throws UsageError  options out of range, classes that the model lacks, a VAE missing, a rule
/// that the drafter does not go with
TokenImageRun generate_token_images(const TokenImageModel& model, const TokenImageDrafter& drafter,
                                    std::span<const std::int64_t> labels,
                                    const TokenImageOptions& options,
                                    const ImageListener& listener = {});

/// The same a slice at a time, so that several runs can take turns.
class TokenImageGeneration {
 public:
  /// @throws UsageError  as `generate_token_images`
  TokenImageGeneration(const TokenImageModel& model, const TokenImageDrafter& drafter,
                       std::span<const std::int64_t> labels, const TokenImageOptions& options,
                       ImageListener listener = {});
  ~TokenImageGeneration();
  TokenImageGeneration(TokenImageGeneration&&) noexcept;
  TokenImageGeneration& operator=(TokenImageGeneration&&) noexcept;

  std::uint64_t tokens() const noexcept;  ///< made so far, over all images
  /// Goes on until so many more tokens are made, at least for one round.
  /// @return  false: there is nothing left, or the listener has ended it
  bool advance(std::uint64_t tokens);
  /// What was made; once, at the end.
  TokenImageRun finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Samples and scores every inner step of the emitted chains again by plain passes. `kept` and
/// `expected` count inner steps that ended on the draft's state (rules stepwise, and self).
/// `counterfactuals` are inner steps.
ImageCertificate certify_token_images(const TokenImageModel& model,
                                      const TokenImageDrafter& drafter,
                                      std::span<const std::int64_t> labels,
                                      const TokenImageOptions& options,
                                      const ImageListener& listener = {},
                                      std::size_t counterfactuals = 16);

}  // namespace forerun
#pragma GCC visibility pop
