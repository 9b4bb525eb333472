#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "forerun/formats/image.h"
#include "forerun/models/vae/vae.h"

namespace forerun {

/// Values of a model's images.
struct PictureShape {
  std::int64_t channels = 0, side = 0;
};

/// Turns values into images, through a decoder where they are latents.
class Pictures {
 public:
  /// Finds a missing decoder, or another's, before the work is done.
  /// @param path   of the model, whose folder may hold the decoder
  /// @param vae    folder of the decoder; empty: the model's own
  /// @param needed false: images are not wanted
  /// @throws UsageError
  Pictures(PictureShape shape, const std::string& path, const std::string& vae, bool needed);
  std::int64_t side() const noexcept;   ///< of its images, in pixels
  std::size_t values() const noexcept;  ///< that `image` takes
  Image image(std::span<const float> values) const;

 private:
  PictureShape shape_;
  std::optional<VaeDecoder> vae_;
};

/// Whether images of so many channels are latents.
constexpr bool are_latents(std::int64_t channels) noexcept {
  return channels != 1 && channels != 3;
}

}  // namespace forerun
