#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "forerun/serve/served_images.h"

namespace forerun::serve {

/// A request to /v1/images/generations, checked.
struct ImageRequest {
  ImageWish wish;  ///< of every image; they differ by their number
  std::size_t n = 1;
  bool stream = false;
  std::size_t partial_images = 0;  ///< previews of each image that a stream shows at most
};

/// @throws ApiError  400: a field is wrong, or asks for what the server does not do; 404: another
/// model
ImageRequest parse_images(const nlohmann::json& body, const ServedImages& served);

}  // namespace forerun::serve
