#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "forerun/core/rng_key.h"
#include "forerun/formats/labelled_images.h"
#include "forerun/models/vae/vae.h"
#include "forerun/train/images/image_batch.h"

namespace forerun {

/// The data of a network over image tokens: pixels, or the latents of an autoencoder.
class MarImages {
 public:
  MarImages() = default;
  /// Pixels in [-1, 1].
  /// @param images  square
  MarImages(LabelledImages images);  // NOLINT(google-explicit-constructor): the same data
  /// Latents. Each image is encoded once, and mirrored if it `flips`: 8 bytes a latent and image.
  /// @param images  square, the side a multiple of the autoencoder's scale
  /// @throws std::invalid_argument  another side
  MarImages(const LabelledImages& images, const VaeEncoder& vae, bool flips);

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(labels_.size()); }
  std::int64_t classes() const noexcept { return classes_; }
  std::int32_t label(std::size_t image) const { return labels_[image]; }
  ImageShape shape(const char* network) const noexcept {
    return {side_, channels_, classes_, network};
  }
  bool latents() const noexcept { return mean_.defined(); }

  /// The values of an image, or of its mirror image: [channels, side, side].
  /// @param key  of the draw of latents from their law
  /// @throws std::invalid_argument  a mirror image of latents that were encoded without
  std::vector<float> values(std::size_t image, bool flip, const RngKey& key) const;

  /// Of all values; of latents, of their means and spreads.
  struct Spread {
    double mean = 0.0, deviation = 1.0;
  };
  Spread spread() const;
  /// A line that identifies the data.
  std::string digest() const;

 private:
  std::int64_t side_ = 0, channels_ = 0, classes_ = 0;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint8_t> pixels_;
  at::Tensor mean_, deviation_;  // [size, channels, side, side], then those of the mirror images
  std::string digest_;
};

}  // namespace forerun
