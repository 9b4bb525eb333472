#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "forerun/formats/labelled_images.h"

namespace forerun {

/// How images are changed without changing their class.
struct MoveOptions {
  bool flip = false;       ///< flip every other image
  std::int64_t shift = 0;  ///< move it by up to so many pixels, either way; edges are repeated
};

/// Images as a network reads them, each changed by (seed, image) alone.
/// @param which  indices of `images`
/// @return       [which, channels, height, width] float32 in [-1, 1]
at::Tensor moved_images(const LabelledImages& images, std::span<const std::size_t> which,
                        std::uint64_t seed = 0, const MoveOptions& options = {});

/// [which] int64
at::Tensor labels_of(const LabelledImages& images, std::span<const std::size_t> which);

}  // namespace forerun
