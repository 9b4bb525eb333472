#pragma once

/// Image generation: what all models of images share, and class-conditional Diffusion Transformers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forerun/certificate.h"
#include "forerun/common.h"
#include "forerun/core/draft_length_report.h"
#include "forerun/core/rule.h"
#include "forerun/core/statistics.h"
#include "forerun/formats/image.h"

#pragma GCC visibility push(default)
namespace forerun {

/// A model of images, of any kind. Copies share it.
class ImageModel {
 public:
  const std::string& path() const noexcept;
  Precision precision() const noexcept;
  const ChosenPrecision& chosen_precision() const noexcept;  ///< the same, with the reason
  std::int64_t classes() const noexcept;
  std::int64_t side() const noexcept;      ///< of its images, or of their latents
  std::int64_t channels() const noexcept;  ///< of these
  std::int64_t parameters() const noexcept;
  std::string digest() const;    ///< a hash of the model's weights
  bool latent() const noexcept;  ///< its images need a VAE to decode

  struct Impl;

 protected:
  explicit ImageModel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend struct Access;
  std::shared_ptr<const Impl> impl_;
};

/// How the arithmetic of the two published implementations of DiT differs
/// (models/dit/dit_config.h).
enum class DitDialect : std::uint8_t { kReference, kDiffusers };

struct ImageOptions;

/// A Diffusion Transformer.
class DiffusionModel : public ImageModel {
 public:
  using Options = ImageOptions;
  /// A folder of forerun or of diffusers, or one safetensors file with facebookresearch/DiT's
  /// names.
  /// @throws FormatError  the path, then what is wrong
  /// @throws UsageError   a precision that this machine or these sizes do not support
  static DiffusionModel load(const std::string& path, DitDialect dialect = DitDialect::kReference,
                             PrecisionRequest precision = kAutoPrecision);
  struct Impl;

 private:
  explicit DiffusionModel(std::shared_ptr<const Impl> impl);
};

/// True if `path` holds a Diffusion Transformer; reads its config only.
bool is_diffusion_model(const std::string& path) noexcept;

class TokenImageModel;

/// A drafter of the target's next steps, or tokens.
class ImageDrafter {
 public:
  ImageDrafter();  ///< none
  /// none; asd; frozen; self (the target: every draft is kept, without any gain); free:FOLDER
  /// @throws UsageError   another name
  /// @throws FormatError  a folder that holds no FREE network, or one for another target
  static ImageDrafter load(const std::string& name, const DiffusionModel& target);
  /// none; self (the target, by coupled Jacobi iteration); cspd:FOLDER (a smaller model), computed
  /// in the target's precision
  /// @throws UsageError   another name; a model of other tokens, or made for another target
  /// @throws FormatError  a folder that holds no such model
  static ImageDrafter load(const std::string& name, const TokenImageModel& target);
  const std::string& name() const noexcept { return name_; }
  /// Multiply-adds of a draft over those of a pass of the target; of a drafted token over those of
  /// a token of the target.
  double cost() const noexcept { return cost_; }

  struct Impl;

 private:
  friend struct Access;
  std::string name_;
  double cost_ = 0.0;
  std::shared_ptr<const Impl> impl_;
};

/// How images of any kind are sampled.
struct CommonImageOptions {
  std::int64_t steps = 1000;  ///< of an image, 1 to 1,000; token by token noise levels of a token
  double guidance = 1.5;      ///< classifier-free; 1: none, at half the cost
  std::uint64_t seed = 0;
  std::uint32_t first = 0;       ///< place of the first image, for a part of a larger run
  std::size_t batch_size = 16;   ///< images at a time; no image depends on it
  std::uint32_t max_draft = 63;  ///< drafted steps, or tokens, a round at most; 0 = plain sampling
  /// Always draft that many. False: as many as make sampling fastest, estimated from the cost of
  /// passes and drafts and the acceptance rate (core/draft_length.h). The law of the images is the
  /// same.
  bool fixed_draft = false;
  Rule rule = Rule::kMaximal;
  std::string vae;       ///< folder of the decoder, for models of latents
  bool pictures = true;  ///< false: values alone are kept, which needs no decoder
  bool trace = false;    ///< keep the trace of the first image
};

/// How images of a Diffusion Transformer are sampled. Rule kMaximal (reflection) or kBlock.
struct ImageOptions : CommonImageOptions {
  /// 0: as the model's dialect does; facebookresearch/DiT guides 3 of 4, diffusers all.
  std::int64_t guided_channels = 0;
  double variance_share = 0.0;  ///< models/ddpm_schedule.h
  double eta = 1.0;             ///< likewise
  bool two_calls = false;       ///< a separate pass before drafting, as the published methods count
  /// Predictions are corrected by the target's output for discarded states. False: as published.
  bool reuse = true;
  /// INEXACT if not empty: FREE (relax), by transition; see `relaxed_profile`. With kMaximal.
  std::vector<double> relaxation;
};

/// How an image came about.
struct ImageTrace {
  /// `emitted` outputs from `first` on: those of the target before drafting (two calls), `kept` of
  /// `drafted` drafts, then the one that replaced a rejected draft, or that the target drew if all
  /// were kept.
  struct Round {
    std::uint32_t first = 0, given = 0, drafted = 0, kept = 0, emitted = 0;
  };
  /// After so many steps the target's prediction of the finished image; or its tokens so far, and
  /// at last all.
  struct Preview {
    std::uint32_t step = 0;
    Image image;
  };
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
  std::vector<Round> rounds;
  std::vector<Preview> previews;  ///< about 16
  std::vector<Token> tokens;      ///< of an image made token by token
  std::int64_t side = 0;          ///< tokens in a row of it; 0: the image has none
};

/// Progress of a run, reported after every round.
struct ImageProgress {
  std::uint64_t steps = 0, of_steps = 0;  ///< transitions, or tokens, over all images
  std::size_t images = 0, of_images = 0;
  std::uint64_t kept = 0, rejected = 0;  ///< drafts
  double seconds = 0.0;
};
struct ImageListener {
  /// Index and image, in the order they are finished.
  std::function<void(std::uint32_t, const Image&)> on_image;
  std::function<void(const ImageProgress&)> on_progress;
  std::function<bool()> go_on;  ///< false ends after the round
};

/// Drafts of one transition, over images.
struct StepStatistics {
  std::uint64_t examined = 0, kept = 0;
  double overlap = 0.0;         ///< sum of the probabilities with which an exact rule keeps them
  double noise_distance = 0.0;  ///< sum of |eps - eps'|, predicted noise of target and drafter
};

struct ImageRun {
  /// Finished ones, in the requested order. Of an interrupted run those that finished first: their
  /// drafts were kept more often, so they are a biased sample.
  std::vector<Image> images;
  std::vector<std::vector<float>> values;  ///< pixels in [-1, 1] before rounding, or latents
  std::vector<double> image_seconds;       ///< of each image, its share of rounds with others
  RunStatistics statistics;                ///< outputs are transitions, or tokens
  std::uint64_t calls = 0;                 ///< sequential passes of the target, summed over images
  ImageTrace trace;                        ///< if requested
  double seconds = 0.0;
  bool exact = true, interrupted = false;

  // Diffusion Transformers.
  std::vector<StepStatistics> steps;  ///< by transition, the first of sampling first
  std::uint64_t states = 0;           ///< states that the passes scored

  // Token by token.
  std::uint64_t remerged = 0;   ///< of the kept drafts: their chains had parted and met again
  std::uint64_t proposals = 0;  ///< rule path: chains drawn after rejections
  std::uint64_t passes = 0;     ///< of the target's backbone, each for all images of a batch
  std::uint64_t head_calls = 0, head_rows = 0;  ///< of the target's head, in sequence; inner steps
  std::optional<DraftLengthReport> draft_length;

  /// Parallel efficiency: outputs for each sequential pass (1 without drafts).
  double efficiency() const noexcept {
    return calls == 0 ? 0.0 : static_cast<double>(statistics.outputs) / static_cast<double>(calls);
  }
};

/// Samples an image of each class in `labels`. An image depends on the options, its index (that in
/// `labels`, counted from `first`) and its class only; with an exact rule its law does not depend
/// on the drafter.
/// @throws UsageError  options out of range, classes that the model lacks, a VAE missing, a drafter
/// of another kind
ImageRun generate_images(const DiffusionModel& model, const ImageDrafter& drafter,
                         std::span<const std::int64_t> labels, const ImageOptions& options,
                         const ImageListener& listener = {});

struct TokenImageOptions;

/// The same a slice at a time, so that several runs can take turns.
class ImageGeneration {
 public:
  /// @throws UsageError  as `generate_images`
  ImageGeneration(const DiffusionModel& model, const ImageDrafter& drafter,
                  std::span<const std::int64_t> labels, const ImageOptions& options,
                  const ImageListener& listener = {});
  ImageGeneration(const TokenImageModel& model, const ImageDrafter& drafter,
                  std::span<const std::int64_t> labels, const TokenImageOptions& options,
                  const ImageListener& listener = {});
  ~ImageGeneration();
  ImageGeneration(ImageGeneration&&) noexcept;
  ImageGeneration& operator=(ImageGeneration&&) noexcept;

  std::uint64_t outputs() const noexcept;  ///< made so far, over all images
  /// Goes on until so many more are made, at least for one round.
  /// @return  false: there is nothing left, or the listener has ended it
  bool advance(std::uint64_t outputs);
  /// What was made; once, at the end.
  ImageRun finish();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Samples as generate_images and scores every transition again by plain passes of the target, also
/// those of unfinished images. After an interruption there is a report if scoring the rest takes a
/// second at most.
/// @param counterfactuals  transitions to sample again, at most; each takes half an image
Certificate certify_images(const DiffusionModel& model, const ImageDrafter& drafter,
                           std::span<const std::int64_t> labels, const ImageOptions& options,
                           const ImageListener& listener = {}, std::size_t counterfactuals = 16);

/// The relaxation of FREE (relax; arXiv:2511.20390, section 3.4): the reciprocal of the distance
/// between predicted noises, smoothed, made nondecreasing along sampling and scaled to 1 at the
/// start.
/// @param run  with an exact rule, over some classes
std::vector<double> relaxed_profile(const ImageRun& run);

/// A grid of images as the bytes of a PNG file.
std::string png_grid(std::span<const Image> images, std::int64_t columns);

}  // namespace forerun
#pragma GCC visibility pop
