#pragma once

#include <algorithm>
#include <cstdint>

namespace forerun {

/// Sizes of a small convolutional classifier of images.
struct ClassifierConfig {
  std::int64_t input = 32;    ///< side of an image, in pixels; 8 or more
  std::int64_t channels = 1;  ///< of an image
  std::int64_t classes = 10;
  std::int64_t width = 32;      ///< channels after the first convolution; then twice, four times
  std::int64_t features = 128;  ///< of an image, before the last product

  static constexpr std::int64_t kStages = 3;
  static constexpr std::int64_t kSpatialChannels = 7;

  std::int64_t stage_channels(std::int64_t stage) const { return width << stage; }
  /// Sides of the maps after the second and the third stage: larger ones are averaged to these.
  std::int64_t middle_side() const { return std::min<std::int64_t>(input / 4, 8); }
  std::int64_t last_side() const { return std::min<std::int64_t>(input / 8, 4); }
  /// Values of an image that keep their position: 448 at 32 pixels a side.
  std::int64_t spatial_features() const { return kSpatialChannels * middle_side() * middle_side(); }

  bool operator==(const ClassifierConfig&) const = default;
};

/// @throws std::invalid_argument  invalid or implausibly large sizes
void check_classifier_config(const ClassifierConfig& config);

}  // namespace forerun
