#pragma once

#include <cstdint>

namespace forerun {

/// The classifier and its training. Plain values: part of the public API.
struct ClassifierTraining {
  std::int64_t width = 32;  ///< channels after the first convolution; then twice, four times
  std::int64_t features = 128;
  /// Side of the images: smaller ones are padded with their first pixel's value; 0: the data's own.
  std::int64_t side = 0;
  bool flip = true;        ///< half of the images flipped, left and right
  std::int64_t shift = 1;  ///< images are shifted by up to this many pixels in each direction
  double smoothing = 0.1;  ///< share of a label that is spread over all classes
};

}  // namespace forerun
