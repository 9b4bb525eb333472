#include "forerun/models/mar/mar_tokens.h"

#include <fmt/format.h>

#include <stdexcept>

namespace forerun {
namespace {

// Calls `with(pixel, value)` for the places of a token's coordinates in an image.
template <class With>
void each_pixel(const MarConfig& c, std::int64_t token, With&& with) {
  const std::int64_t place = c.patch_of(token), across = c.patches_per_side();
  const std::int64_t top = place / across * c.patch, left = place % across * c.patch;
  std::int64_t value = token * c.dim();
  for (std::int64_t channel = 0; channel < c.channels; ++channel) {
    for (std::int64_t p = 0; p < c.patch; ++p) {
      const std::int64_t row = (channel * c.side + top + p) * c.side + left;
      for (std::int64_t q = 0; q < c.patch; ++q, ++value) {
        with(static_cast<std::size_t>(row + q), static_cast<std::size_t>(value));
      }
    }
  }
}

}  // namespace

std::vector<float> mar_tokens(const MarConfig& c, std::span<const float> pixels) {
  const auto values = static_cast<std::size_t>(c.tokens() * c.dim());
  if (pixels.size() != values) {
    throw std::invalid_argument(
        fmt::format("an image of {} values; {} are expected", pixels.size(), values));
  }
  const auto mean = static_cast<float>(c.mean), scale = static_cast<float>(c.scale);
  std::vector<float> out(values);
  for (std::int64_t i = 0; i < c.tokens(); ++i) {
    each_pixel(c, i, [&](std::size_t pixel, std::size_t value) {
      out[value] = (pixels[pixel] - mean) / scale;
    });
  }
  return out;
}

std::vector<float> mar_image(const MarConfig& c, std::span<const float> tokens) {
  const auto dim = static_cast<std::size_t>(c.dim());
  if (tokens.size() % dim != 0 || tokens.size() / dim > static_cast<std::size_t>(c.tokens())) {
    throw std::invalid_argument(
        fmt::format("{} values are not up to {} tokens of {}", tokens.size(), c.tokens(), dim));
  }
  const auto mean = static_cast<float>(c.mean), scale = static_cast<float>(c.scale);
  std::vector<float> out(static_cast<std::size_t>(c.tokens()) * dim, -1.0F);
  for (std::size_t i = 0; i < tokens.size() / dim; ++i) {
    each_pixel(c, static_cast<std::int64_t>(i), [&](std::size_t pixel, std::size_t value) {
      out[pixel] = tokens[value] * scale + mean;
    });
  }
  return out;
}

}  // namespace forerun
