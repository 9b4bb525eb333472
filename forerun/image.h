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
#include "forerun/core/statistics.h"
#include "forerun/formats/image.h"

#pragma GCC visibility push(default)
namespace forerun {

/// Where the two published implementations of DiT compute differently (models/dit/dit_config.h).
enum class DitDialect : std::uint8_t { kReference, kDiffusers };

/// True if `path` holds a Diffusion Transformer; reads its config alone.
bool is_diffusion_model(const std::string& path) noexcept;

/// A Diffusion Transformer. Copies share it.
class DiffusionModel {
 public:
  /// A folder of ours or of diffusers, or one safetensors file with facebookresearch/DiT's names.
  /// @throws FormatError  the path, then what is wrong
  /// @throws UsageError   a precision that this machine or these sizes do not allow
  static DiffusionModel load(const std::string& path, DitDialect dialect = DitDialect::kReference,
                             AskedPrecision precision = Precision::kF32);

  const std::string& path() const noexcept;
  Precision precision() const noexcept;
  const ChosenPrecision& chosen_precision() const noexcept;  ///< the same, and why
  std::int64_t classes() const noexcept;
  std::int64_t side() const noexcept;      ///< of its images, or of their latents
  std::int64_t channels() const noexcept;  ///< of these
  std::int64_t parameters() const noexcept;
  /// A hash that differs for models with other weights.
  std::string digest() const;
  bool latent() const noexcept;  ///< its images need a VAE to be seen

  struct Impl;

 private:
  friend struct Access;
  explicit DiffusionModel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// What guesses the steps ahead of the target.
class ImageDrafter {
 public:
  /// none; asd; frozen; self (the target: every draft is kept, and nothing gained); free:FOLDER
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
  double guidance = 1.5;      ///< classifier-free; 1: none, and half the work
  /// 0: as the model's dialect does; facebookresearch/DiT guides 3 of 4, diffusers all.
  std::int64_t guided_channels = 0;
  double variance_share = 0.0;  ///< models/ddpm_schedule.h
  double eta = 1.0;             ///< likewise
  std::uint64_t seed = 0;
  std::uint32_t first = 0;       ///< place of the first image, for a part of a larger run
  std::size_t batch_size = 16;   ///< images at a time; no image depends on it
  std::uint32_t max_draft = 63;  ///< drafted steps a round at most; 0 = plain sampling
  /// Always draft that many, instead of as many as make sampling faster on this machine, by what
  /// passes and drafts are seen to cost and how many are kept (core/draft_length.h). Images have
  /// the same law either way.
  bool fixed_draft = false;
  bool two_calls = false;  ///< a pass of its own before drafting, as the published methods count
  /// Guesses are corrected by what passes said of states that were discarded. False: as published.
  bool reuse = true;
  /// INEXACT if not empty: FREE (relax), by transition; see `relaxed_profile`.
  std::vector<double> relaxation;
  std::string vae;       ///< folder of the decoder, for models of latents
  bool pictures = true;  ///< false: values alone are kept, which needs no decoder
  bool trace = false;    ///< keep how the first image came about
};

/// How an image came about.
struct ImageTrace {
  /// `emitted` transitions from `first` on: those that the target gave before drafting (two calls),
  /// `kept` of `drafted` drafts, then one that was reflected, or drawn from the target where all
  /// were kept.
  struct Round {
    std::uint32_t first = 0, given = 0, drafted = 0, kept = 0, emitted = 0;
  };
  /// What the target predicted after so many steps.
  struct Prediction {
    std::uint32_t step = 0;
    Image image;
  };
  std::vector<Round> rounds;
  std::vector<Prediction> predictions;  ///< about 16
};

/// Where a run stands; told after every round.
struct ImageProgress {
  std::uint64_t steps = 0, of_steps = 0;  ///< transitions over all images
  std::size_t images = 0, of_images = 0;
  std::uint64_t kept = 0, rejected = 0;  ///< drafts
  double seconds = 0.0;
};
struct ImageListener {
  /// Place and image, in the order they are finished.
  std::function<void(std::uint32_t, const Image&)> on_image;
  std::function<void(const ImageProgress&)> on_progress;
  std::function<bool()> go_on;  ///< false ends after the round
};

/// What became of the drafts of one transition, over images.
struct StepStatistics {
  std::uint64_t examined = 0, kept = 0;
  double overlap = 0.0;         ///< sum of the probabilities with which an exact rule keeps them
  double noise_distance = 0.0;  ///< sum of |eps - eps'|, predicted noise of target and drafter
};

struct ImageRun {
  /// Finished ones, in the order asked for. Of an interrupted run those that were finished first:
  /// images whose drafts were kept more often, so no fair sample.
  std::vector<Image> images;
  std::vector<std::vector<float>> values;  ///< the same before they became bytes
  RunStatistics statistics;                ///< outputs are transitions
  std::vector<StepStatistics> steps;       ///< by transition, the first of sampling first
  /// Passes of the target one after the other, summed over images: what cannot be done at a time.
  std::uint64_t calls = 0;
  std::uint64_t states = 0;  ///< states that these passes scored
  ImageTrace trace;          ///< if asked for
  double seconds = 0.0;
  bool exact = true, interrupted = false;

  /// Parallel efficiency: transitions for each such pass (1 without drafts).
  double efficiency() const noexcept {
    return calls == 0 ? 0.0 : static_cast<double>(statistics.outputs) / static_cast<double>(calls);
  }
};

/// Samples an image of each class in `labels`. An image depends on the options, its place (that in
/// `labels`, counted from `first`) and its class alone; with an exact rule its law does not depend
/// on the drafter.
/// @throws UsageError  options out of range, classes the model does not have, a VAE missing
ImageRun generate_images(const DiffusionModel& model, const ImageDrafter& drafter,
                         std::span<const std::int64_t> labels, const ImageOptions& options,
                         const ImageListener& listener = {});

/// Transitions sampled again with their noise, and all later noise, from another seed: what decides
/// them may not change, bit for bit (methods/diffusion/decision_watch.h). None where a clock
/// decides draft lengths, or where the run was interrupted.
struct Counterfactuals {
  std::uint64_t places = 0, violations = 0;
};

/// Whether images of such a run have the law of plain sampling.
struct ImageCertificate {
  CertificateReport report;
  std::uint64_t kept = 0;   ///< of the drafts that were examined
  double expected = 0.0;    ///< how many of these an exact rule keeps, on average
  double expected_z = 0.0;  ///< distance between the two in standard errors
  /// Means over drafted transitions of the output along the draft, in sigmas: measured, and what
  /// the relaxation makes it (0 for an exact rule).
  double shift = 0.0, predicted_shift = 0.0;
  Counterfactuals counterfactuals;
  double seconds = 0.0;
  bool interrupted = false;

  bool passed() const noexcept;  ///< false, too, where nothing was drafted: nothing was tested
};
/// Samples as generate_images and scores every transition again by plain passes of the target,
/// those of unfinished images too.
/// @param counterfactuals  transitions to sample again, at most; each takes half an image
ImageCertificate certify_images(const DiffusionModel& model, const ImageDrafter& drafter,
                                std::span<const std::int64_t> labels, const ImageOptions& options,
                                const ImageListener& listener = {},
                                std::size_t counterfactuals = 16);

/// The relaxation of FREE (relax; arXiv:2511.20390, section 3.4): the reciprocal of the distance
/// between predicted noises, smoothed and made to rise along sampling, scaled to 1 at the start.
/// @param run  with an exact rule, over some classes
std::vector<double> relaxed_profile(const ImageRun& run);

/// A grid of images as the bytes of a PNG file.
std::string png_grid(std::span<const Image> images, std::int64_t columns);

}  // namespace forerun
#pragma GCC visibility pop
