#pragma once

#include <cstdint>
#include <string>

namespace forerun {

/// The Diffusion Transformer and its training. Plain values: part of the public API.
struct DitTraining {
  std::int64_t depth = 8, hidden = 128, heads = 4;
  std::int64_t patch = 4;  ///< side of a patch, in pixels
  /// Side of the images: smaller ones are padded with their first pixel's value; 0: the data's own.
  std::int64_t side = 0;
  double drop = 0.1;  ///< share of the images without their class, for guidance
  bool flip = true;   ///< half of the images flipped, left and right
  std::string init;   ///< folder of a network to continue from, with its sizes; empty: at random
};

}  // namespace forerun
