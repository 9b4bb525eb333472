#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forerun::cli {

/// How one image came about, for a page.
struct ImageTracePage {
  /// Steps `first` to `first + emitted - 1`: `kept` drafts, then one that was reflected if not all
  /// of `drafted` were kept, else one that the target drew itself.
  struct Round {
    std::uint32_t first = 0, given = 0, drafted = 0, kept = 0, emitted = 0;
  };
  /// What the target predicted after some steps.
  struct Prediction {
    std::uint32_t step = 0;
    std::string png;  ///< bytes of a file
  };
  std::string title, command, version;
  std::vector<std::pair<std::string, std::string>> facts;  ///< shown above, in this order
  std::uint32_t steps = 0;
  std::vector<Round> rounds;
  std::vector<Prediction> predictions;
};

/// The timeline of the image as one HTML page that needs nothing else; nothing is fetched.
///
/// The page holds the fields above, a round as [first, given, drafted, kept, emitted], and "cells":
/// of each step a letter, "k" for a kept draft, "r" for a reflected one, "t" for the target's own.
std::string render_image_trace(const ImageTracePage& page);

}  // namespace forerun::cli
