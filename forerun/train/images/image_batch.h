#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "forerun/formats/labelled_images.h"
#include "forerun/models/dit/dit_config.h"

namespace forerun {

/// The randomness of one image of a training batch, by (seed, image) alone.
struct NoisyImages {
  at::Tensor clean;  ///< [batch, channels, side, side] float32 in [-1, 1]
  at::Tensor noise;  ///< the same shape, standard normal
  at::Tensor time;   ///< [batch] int64, below 1,000
  at::Tensor label;  ///< [batch] int64; the number of classes if dropped
  at::Tensor noisy;  ///< sqrt(alpha_bar) clean + sqrt(1 - alpha_bar) noise
};

/// How noise is added to the images of a batch.
struct NoiseOptions {
  double drop = 0.1;            ///< share of dropped labels
  bool flip = true;             ///< flip half of the images
  std::int64_t first_time = 0;  ///< times are uniform from here to 999
  double late = 0.0;            ///< except for this share, uniform over the first 100 of them
};

/// @param images    square; `which` are indices of it
/// @param seed      the same image has other randomness under another
NoisyImages noisy_images(const LabelledImages& images, std::span<const std::size_t> which,
                         std::uint64_t seed, const NoiseOptions& options);

/// The input format of an image network.
struct ImageShape {
  std::int64_t side, channels, classes;
  const char* network = "network";  ///< its name in messages
};
inline ImageShape shape_of(const DitConfig& c) { return {c.input, c.channels, c.classes}; }

/// @throws std::invalid_argument  images of other sizes or classes than the network's
void check_images(const ImageShape& shape, const ImageShape& images);
/// The same; no images are allowed.
void check_images(const ImageShape& shape, const LabelledImages& images);
/// @throws std::invalid_argument  the same for both, or no training images
void check_images(const ImageShape& shape, const LabelledImages& training,
                  const LabelledImages& held_out);

/// A line that identifies the images.
std::string digest_of(const LabelledImages& images);

}  // namespace forerun
