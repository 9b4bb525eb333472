#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "forerun/base/result.h"

namespace forerun {

/// Images of one size, each with the number of its class: what a class-conditional model learns
/// from.
struct LabelledImages {
  std::int64_t width = 0, height = 0;
  std::int64_t channels = 1;         ///< 1 (grey) or 3 (red, green, blue)
  std::vector<std::uint8_t> pixels;  ///< [size, channels, height, width]
  std::vector<std::int32_t> labels;  ///< [size], each an index into `classes`
  std::vector<std::string> classes;  ///< names

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(labels.size()); }
};

enum class ImageSplit : std::uint8_t { kTrain, kTest };

/// Two IDX files of the MNIST family: images [n, height, width], n >= 1, and labels [n] from 0 to
/// 9; the classes are "0" to "9".
/// Error: the path at fault, then as parse_idx, another shape, other counts, a label out of range.
Result<LabelledImages> load_labelled_idx(const std::filesystem::path& images_path,
                                         const std::filesystem::path& labels_path);

/// A data set in a folder of one of these layouts:
///   MNIST    {train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, plain or with .gz
///   classes  CLASS/*.png, for ImageSplit::kTrain alone
///   split    train/CLASS/*.png and test/CLASS/*.png
/// Classes and the files of a class are in the order of their names, bytewise. Names that start
/// with a dot are passed over, and so are files that are no pictures.
/// Errors: none of these (says what was expected), a class without images, a picture that is not
/// PNG, an image of another size or channel count than the first, train and test with other
/// classes; as load_png, load_labelled_idx.
Result<LabelledImages> load_labelled_images(const std::filesystem::path& folder, ImageSplit split);

/// Whether a data set has a test split, whole or damaged: files of it are there.
/// Errors: the folder cannot be read.
Result<bool> has_test_images(const std::filesystem::path& folder);

/// The images in the middle of larger ones, e.g. 28 x 28 in 32 x 32; an odd pixel goes to the right
/// and the bottom.
/// @param fill  the value around them, in every channel
/// @throws std::invalid_argument  narrower or lower than the images, or more than 16384 a side
LabelledImages padded(const LabelledImages& images, std::int64_t width, std::int64_t height,
                      std::uint8_t fill);

}  // namespace forerun
