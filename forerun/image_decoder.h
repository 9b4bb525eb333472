#pragma once

/// Pictures of the values that an engine reports of images.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "forerun/image.h"

#pragma GCC visibility push(default)
namespace forerun {

class Pictures;

/// Turns a model's values into pictures, through the decoder of a VAE where they are latents.
/// Copies share the decoder. Any thread may use it.
class ImageDecoder {
 public:
  /// @param vae  folder of the decoder; empty: the model's own, if its values are latents
  /// @throws UsageError   latents without a decoder, or with another model's
  /// @throws FormatError  a folder that holds no decoder
  explicit ImageDecoder(const ImageModel& model, const std::string& vae = "");

  std::int64_t side() const noexcept;  ///< of its pictures, in pixels
  /// @param values       [channels, side, side] of the model, float32
  /// @throws UsageError  another number of values
  Image image(std::span<const float> values) const;

 private:
  std::shared_ptr<const Pictures> pictures_;
};

}  // namespace forerun
#pragma GCC visibility pop
