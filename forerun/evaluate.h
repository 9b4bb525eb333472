#pragma once

/// Comparison of sets of images under a small classifier.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/common.h"
#include "forerun/formats/image.h"

#pragma GCC visibility push(default)
namespace forerun {

/// Images and the class requested for each.
struct ImageSet {
  std::vector<Image> images;
  std::vector<std::int64_t> labels;
};

/// @throws FormatError  the path, then why it is not a readable PNG file
Image load_image(const std::string& path);

/// A classifier, and the images of a data set with which it compares others.
class ImageReference {
 public:
  /// @param classifier  folder that `train_classifier` made
  /// @param data        images in the format of `train_dit`, with test images
  /// @throws FormatError  a folder that holds no classifier or half of one, no images, ...
  /// @throws UsageError   images that do not fit the classifier: of other classes, channels, size
  static ImageReference load(const std::string& classifier, const std::string& data);

  const std::vector<std::string>& classes() const noexcept;  ///< names, by number
  std::int64_t side() const noexcept;                        ///< of images, in pixels
  std::int64_t channels() const noexcept;
  std::int64_t images() const noexcept;  ///< test images
  /// A hash of the classifier's weights. Figures of classifiers with different weights are not
  /// comparable.
  const std::string& digest() const noexcept;

  struct Impl;

 private:
  friend struct Access;
  explicit ImageReference(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// Reads CLASS/*.png, where CLASS is the name of one of the reference's classes; some may be
/// missing. Sorted by name.
/// @throws FormatError  no images, damaged or unequal ones
/// @throws UsageError   a folder of another name; images of another size or channel count
ImageSet load_image_set(const std::string& folder, const ImageReference& reference);

/// A figure with its standard error, from resampled sets with the same number of each class.
struct Estimate {
  double value = 0.0, error = 0.0;
};

/// Comparison of a set of images with the test images under the classifier. Not comparable with
/// figures of other networks (Inception FID) or of another classifier, and blind to what the
/// classifier ignores. Only `certify_images` tests for bias.
struct ImageScores {
  /// Squared Frechet distance of the features, cFID; of the first channels of a map, c-sFID
  /// (metrics/frechet.h). Both fall as sets grow: compare sets of one size.
  Estimate frechet, spatial_frechet;
  /// Shares of the images that lie among the test images, and the reverse (metrics/neighbours.h).
  Estimate precision, recall;
  Estimate agreement;  ///< share that the classifier assigns to the requested class
  std::vector<Estimate> agreement_by_class;  ///< 0 of 0 is 0
};

struct EvaluationOptions {
  std::uint64_t seed = 0;          ///< of the resampled sets, and of the floor's images
  std::uint32_t replicates = 100;  ///< resampled sets, for the errors
};

struct ImageEvaluation {
  std::int64_t images = 0;  ///< of each set
  /// As many training images, of the same classes: about the best that samples can reach.
  ImageScores floor;
  std::int64_t floor_images = 0;  ///< fewer where the data has no more
  double test_agreement = 0.0;    ///< accuracy of the classifier on the test images
  std::vector<ImageScores> sets;
  /// Each later set minus the first. If their labels are the same, images of one place are
  /// resampled together, which removes the variation that two runs of one seed share.
  std::vector<ImageScores> differences;
};

/// Compares sets of images, of one size each, with the test images. For sets of 5,000 and 10,000
/// test images of 32 x 32 about half a minute of CPU a set, the floor's included as one.
/// @param on_part  called with the name of the part being computed
/// @throws UsageError  no set, sets of different sizes or fewer than 4 images, images or classes
/// that do not fit the reference
ImageEvaluation evaluate_images(const ImageReference& reference, std::span<const ImageSet> sets,
                                const EvaluationOptions& options = {},
                                const std::function<void(std::string_view)>& on_part = {});

}  // namespace forerun
#pragma GCC visibility pop
