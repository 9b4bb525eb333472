#pragma once

#include <cstdint>
#include <vector>

namespace forerun {

/// An image as files and pages have it; models take tensors.
struct Image {
  std::int64_t width = 0, height = 0;
  std::int64_t channels = 1;         ///< 1 (grey) or 3 (red, green, blue)
  std::vector<std::uint8_t> pixels;  ///< [height, width, channels]
};

}  // namespace forerun
