#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "forerun/engine.h"
#include "forerun/image_decoder.h"

namespace forerun::serve {

/// What a client may say of an image; what it leaves out is the model's standard.
struct ImageWish {
  std::int64_t label = 0;  ///< class
  std::uint64_t seed = 0;
  std::optional<std::int64_t> steps;
  std::optional<double> guidance;
  bool drafts = true;
  std::size_t previews = 0;
};

/// The image model of a server, of any kind. Does not change while it runs.
struct ServedImages {
  std::string id;  ///< clients know it by this name
  std::int64_t classes = 0;
  std::string drafter, rule;
  ImageDecoder decoder;
  /// Image `index` of a wish, as `forerun generate` numbers them. Called on the engine's thread.
  /// @throws UsageError  options that the model does not take
  std::function<RequestId(Engine&, const ImageWish& wish, std::uint32_t index)> submit;
};

/// @param standard  options of every image but for what a client says
ServedImages serve_images(const std::string& id, const DiffusionModel& model,
                          const ImageDrafter& drafter, const ImageOptions& standard);
ServedImages serve_images(const std::string& id, const TokenImageModel& model,
                          const ImageDrafter& drafter, const TokenImageOptions& standard);

}  // namespace forerun::serve
