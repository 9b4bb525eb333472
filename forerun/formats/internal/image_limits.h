#pragma once

#include <cstdint>

namespace forerun::internal {

constexpr std::int64_t kMaxImageSide = 16384;
constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

constexpr bool fits_limits(std::int64_t width, std::int64_t height) noexcept {
  return width >= 1 && height >= 1 && width <= kMaxImageSide && height <= kMaxImageSide &&
         width * height <= kMaxImagePixels;
}

}  // namespace forerun::internal
