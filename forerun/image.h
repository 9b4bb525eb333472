#pragma once

/// Image generation: class-conditional Diffusion Transformers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/common.h"
#include "forerun/core/certificate_report.h"
#include "forerun/core/rule.h"
#include "forerun/core/statistics.h"
#include "forerun/formats/image.h"

#pragma GCC visibility push(default)
namespace forerun {

/// How the arithmetic of the two published implementations of DiT differs
/// (models/dit/dit_config.h).
enum class DitDialect : std::uint8_t { kReference, kDiffusers };

/// True if `path` holds a Diffusion Transformer; reads its config only.
bool is_diffusion_model(const std::string& path) noexcept;

/// A Diffusion Transformer. Copies share it.
class DiffusionModel {
 public:
  /// A folder of ours or of diffusers, or one safetensors file with facebookresearch/DiT's names.
  /// @throws FormatError  the path, then what is wrong
  /// @throws UsageError   a precision that this machine or these sizes do not support
  static DiffusionModel load(const std::string& path, DitDialect dialect = DitDialect::kReference,
                             PrecisionRequest precision = Precision::kF32);

  const std::string& path() const noexcept;
  Precision precision() const noexcept;
  const ChosenPrecision& chosen_precision() const noexcept;  ///< the same, with the reason
  std::int64_t classes() const noexcept;
  std::int64_t side() const noexcept;      ///< of its images, or of their latents
  std::int64_t channels() const noexcept;  ///< of these
  std::int64_t parameters() const noexcept;
  /// A hash of the model's weights.
  std::string digest() const;
  bool latent() const noexcept;  ///< its images need a VAE to decode

  struct Impl;

 private:
  friend struct Access;
  explicit DiffusionModel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// A drafter of the target's next steps.
class ImageDrafter {
 public:
  /// none; asd; frozen; self (the target: every draft is kept, without any gain); free:FOLDER
  /// @throws UsageError   another name
  /// @throws FormatError  a folder that holds no FREE network, or one for another target
  static ImageDrafter load(const std::string& name, const DiffusionModel& target);
  const std::string& name() const noexcept { return name_; }
  /// Multiply-adds of a draft over those of a pass of the target.
  double cost() const noexcept { return cost_; }

  struct Impl;

 private:
  friend struct Access;
  std::string name_;
  double cost_ = 0.0;
  std::shared_ptr<const Impl> impl_;
};

/// How images are sampled.
struct ImageOptions {
  std::int64_t steps = 1000;  ///< 1 to 1,000
  double guidance = 1.5;      ///< classifier-free; 1: none, at half the cost
  /// 0: as the model's dialect does; facebookresearch/DiT guides 3 of 4, diffusers all.
  std::int64_t guided_channels = 0;
  double variance_share = 0.0;  ///< models/ddpm_schedule.h
  double eta = 1.0;             ///< likewise
  std::uint64_t seed = 0;
  std::uint32_t first = 0;       ///< place of the first image, for a part of a larger run
  std::size_t batch_size = 16;   ///< images at a time; no image depends on it
  std::uint32_t max_draft = 63;  ///< drafted steps a round at most; 0 = plain sampling
  /// Always draft that many. False: as many as make sampling fastest, estimated from the cost of
  /// passes and drafts and the acceptance rate (core/draft_length.h). The law of the images is the
  /// same.
  bool fixed_draft = false;
  bool two_calls = false;  ///< a separate pass before drafting, as the published methods count
  /// Predictions are corrected by the target's output for discarded states. False: as published.
  bool reuse = true;
  Rule rule = Rule::kMaximal;  ///< kMaximal: reflection; or kBlock
  /// INEXACT if not empty: FREE (relax), by transition; see `relaxed_profile`. With kMaximal.
  std::vector<double> relaxation;
  std::string vae;       ///< folder of the decoder, for models of latents
  bool pictures = true;  ///< false: values alone are kept, which needs no decoder
  bool trace = false;    ///< keep the trace of the first image
};

/// The trace of an image.
struct ImageTrace {
  /// `emitted` transitions from `first` on: those of the target before drafting (two calls),
  /// `kept` of `drafted` drafts, then one that was reflected, or drawn from the target if all were
  /// kept.
  struct Round {
    std::uint32_t first = 0, given = 0, drafted = 0, kept = 0, emitted = 0;
  };
  /// The target's predicted x0 after this many steps.
  struct Prediction {
    std::uint32_t step = 0;
    Image image;
  };
  std::vector<Round> rounds;
  std::vector<Prediction> predictions;  ///< about 16
};

/// Progress of a run, reported after every round.
struct ImageProgress {
  std::uint64_t steps = 0, of_steps = 0;  ///< transitions over all images
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
  std::vector<std::vector<float>> values;  ///< the same before rounding to bytes
  RunStatistics statistics;                ///< outputs are transitions
  std::vector<StepStatistics> steps;       ///< by transition, the first of sampling first
  /// Sequential passes of the target, summed over images.
  std::uint64_t calls = 0;
  std::uint64_t states = 0;  ///< states that these passes scored
  ImageTrace trace;          ///< if requested
  double seconds = 0.0;
  bool exact = true, interrupted = false;

  /// Parallel efficiency: transitions for each sequential pass (1 without drafts).
  double efficiency() const noexcept {
    return calls == 0 ? 0.0 : static_cast<double>(statistics.outputs) / static_cast<double>(calls);
  }
};

/// Samples an image of each class in `labels`. An image depends on the options, its index (that in
/// `labels`, counted from `first`) and its class only; with an exact rule its law does not depend
/// on the drafter.
/// @throws UsageError  options out of range, classes that the model lacks, a VAE missing
ImageRun generate_images(const DiffusionModel& model, const ImageDrafter& drafter,
                         std::span<const std::int64_t> labels, const ImageOptions& options,
                         const ImageListener& listener = {});

/// Transitions sampled again with their noise, and all later noise, from another seed: their
/// decisions must not change, bit for bit (methods/diffusion/decision_watch.h). None if draft
/// lengths depend on the clock, or the run was interrupted.
struct Counterfactuals {
  std::uint64_t places = 0, violations = 0;
};

/// Whether images of such a run have the law of plain sampling.
struct ImageCertificate {
  CertificateReport report;
  std::uint64_t kept = 0;   ///< of the drafts that were examined
  double expected = 0.0;    ///< how many of these an exact rule keeps, on average
  double expected_z = 0.0;  ///< distance between the two in standard errors
  /// Means over drafted transitions of the output along the draft, in sigmas: measured, and
  /// predicted for the relaxation (0 for an exact rule).
  double shift = 0.0, predicted_shift = 0.0;
  Counterfactuals counterfactuals;
  double seconds = 0.0;
  bool interrupted = false;

  bool passed() const noexcept;  ///< also false if nothing was drafted and so nothing tested
};
/// Samples as generate_images and scores every transition again by plain passes of the target, also
/// those of unfinished images. After an interruption there is a report if scoring the rest takes a
/// second at most.
/// @param counterfactuals  transitions to sample again, at most; each takes half an image
ImageCertificate certify_images(const DiffusionModel& model, const ImageDrafter& drafter,
                                std::span<const std::int64_t> labels, const ImageOptions& options,
                                const ImageListener& listener = {},
                                std::size_t counterfactuals = 16);

/// The relaxation of FREE (relax; arXiv:2511.20390, section 3.4): the reciprocal of the distance
/// between predicted noises, smoothed, made nondecreasing along sampling and scaled to 1 at the
/// start.
/// @param run  with an exact rule, over some classes
std::vector<double> relaxed_profile(const ImageRun& run);

/// A grid of images as the bytes of a PNG file.
std::string png_grid(std::span<const Image> images, std::int64_t columns);

}  // namespace forerun
#pragma GCC visibility pop
