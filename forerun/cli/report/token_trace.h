#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace forerun::cli {

/// How one image came about token by token, for a page.
struct TokenTracePage {
  struct Token {
    std::uint32_t round = 0, place = 0;  ///< patch of the image, by rows
    /// "k" a kept draft, "m" one whose chain parted and met again, "r" rejected, "t" the target's
    char fate = 't';
    /// States of the target's chain and of the draft's in two dimensions.
    std::vector<std::pair<float, float>> chain, draft;
    std::vector<std::uint8_t> together;  ///< by inner step
  };
  struct Round {
    std::uint32_t first = 0, drafted = 0, kept = 0, emitted = 0;
  };
  /// The image with its first tokens; the last of them is the whole image.
  struct Partial {
    std::uint32_t tokens = 0;
    std::string png;  ///< bytes of a file
  };
  std::string title, command, version;
  std::vector<std::pair<std::string, std::string>> facts;  ///< shown above, in this order
  std::int64_t side = 0;                                   ///< tokens in a row of the image
  std::vector<Token> tokens;                               ///< in the order they were made
  std::vector<Round> rounds;
  std::vector<Partial> images;
};

/// The image as one HTML page that needs nothing else; nothing is fetched. The page holds the
/// fields above: a token as {round, place, fate, chain, draft, together}, a round as [first,
/// drafted, kept, emitted].
std::string render_token_trace(const TokenTracePage& page);

}  // namespace forerun::cli
