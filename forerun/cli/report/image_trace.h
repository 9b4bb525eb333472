#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace forerun::cli {

/// How one image came about, for a page.
struct ImageTracePage {
  /// Steps, or tokens, `first` to `first + emitted - 1`: `given` by the target before drafting,
  /// `kept` drafts, then one that replaced a rejected draft if not all of `drafted` were kept, else
  /// one that the target drew itself.
  struct Round {
    std::uint32_t first = 0, given = 0, drafted = 0, kept = 0, emitted = 0;
  };
  /// What the target predicted after some steps; or the image's tokens so far, and at last all.
  struct Preview {
    std::uint32_t step = 0;
    std::string png;  ///< bytes of a file
  };
  struct Token {
    std::uint32_t round = 0, place = 0;  ///< patch of the image, by rows
    /// "k" a kept draft, "m" one whose chain parted and met again, "r" rejected, "t" the target's
    char fate = 't';
    /// States of the target's chain and of the draft's in two dimensions.
    std::vector<std::pair<float, float>> chain, draft;
    std::vector<std::uint8_t> together;  ///< by inner step
  };
  std::string title, command, version;
  std::vector<std::pair<std::string, std::string>> facts;  ///< shown above, in this order
  std::uint32_t steps = 0;                                 ///< of an image of a diffusion model
  std::vector<Round> rounds;
  std::vector<Preview> previews;
  std::int64_t side = 0;      ///< tokens in a row of the image; 0: it was not made token by token
  std::vector<Token> tokens;  ///< in the order they were made
};

/// The image as one HTML page that needs nothing else; nothing is fetched: a timeline of its steps,
/// or its tokens with their chains.
///
/// The page holds the fields above, a round as [first, given, drafted, kept, emitted], a token as
/// {round, place, fate, chain, draft, together}, and of steps "cells": of each a letter, "k" for a
/// kept draft, "r" for a reflected one, "t" for the target's own.
std::string render_image_trace(const ImageTracePage& page);

}  // namespace forerun::cli
