#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "forerun/image.h"

namespace forerun::testing {

/// An image of 16 x 16 with a bright bar whose height is its class, 0 to 4; `number` shifts and
/// shades it.
inline Image striped_image(std::int64_t label, std::uint32_t number) {
  Image out{.width = 16, .height = 16, .channels = 1, .pixels = {}};
  std::uint32_t state = number * 2654435761U + static_cast<std::uint32_t>(label) + 1;
  for (std::int64_t p = 0; p < 256; ++p) {
    state = state * 1664525U + 1013904223U;
    const bool bright = p / 16 / 3 == label;
    out.pixels.push_back(
        static_cast<std::uint8_t>((bright ? 160 + number % 40 : 10) + (state >> 27)));
  }
  return out;
}

/// A data set of such images: train/CLASS and test/CLASS, classes named "a" to "e".
inline void write_striped(const std::filesystem::path& folder, std::uint32_t training,
                          std::uint32_t test) {
  for (const bool train : {true, false}) {
    for (std::int64_t label = 0; label < 5; ++label) {
      const auto at =
          folder / (train ? "train" : "test") / std::string(1, static_cast<char>('a' + label));
      std::filesystem::create_directories(at);
      for (std::uint32_t i = 0; i < (train ? training : test); ++i) {
        const Image image = striped_image(label, train ? i : 1000 + i);
        std::ofstream(at / (std::to_string(i) + ".png"), std::ios::binary)
            << png_grid(std::span(&image, 1), 1);
      }
    }
  }
}

}  // namespace forerun::testing
