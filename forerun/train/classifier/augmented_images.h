#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "forerun/formats/labelled_images.h"

namespace forerun {

/// Changes to images that keep their class.
struct AugmentOptions {
  bool flip = false;       ///< flip half of the images
  std::int64_t shift = 0;  ///< shift by at most this many pixels; edges are repeated
};

/// Images as network input, each changed by (seed, image) alone.
/// @param which  indices of `images`
/// @return       [which, channels, height, width] float32 in [-1, 1]
at::Tensor augmented_images(const LabelledImages& images, std::span<const std::size_t> which,
                            std::uint64_t seed = 0, const AugmentOptions& options = {});

/// [which] int64
at::Tensor labels_of(const LabelledImages& images, std::span<const std::size_t> which);

}  // namespace forerun
