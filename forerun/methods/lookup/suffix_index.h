#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// Finds earlier occurrences of the end of a growing text.
class SuffixIndex {
 public:
  struct Match {
    std::size_t next = 0;    ///< index of the token after the earlier occurrence
    std::size_t length = 0;  ///< matching tokens, 0 if there is no match
  };

  /// Reads the tokens after the known ones; `text` grows, its known part unchanged.
  void extend(std::span<const Token> text);
  /// The longest earlier occurrence of a suffix of `text` (the text last passed to extend) of at
  /// least two tokens; the most recent among equals. Checks at most 256 occurrences and compares 64
  /// tokens.
  Match longest(std::span<const Token> text) const;
  /// Earlier occurrences of the end of `text`, the most recent first: at most 64 of at least two
  /// tokens; without any, at most 16 of the last token.
  std::vector<Match> all(std::span<const Token> text) const;

 private:
  static std::uint64_t pair(Token a, Token b) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 |
           static_cast<std::uint32_t>(b);
  }
  std::unordered_map<std::uint64_t, std::int32_t> last_;  // token pair -> index of its second token
  std::vector<std::int32_t>
      previous_;  // by index of the second token: the previous occurrence, or -1
  std::unordered_map<Token, std::int32_t> last_token_;  // token -> its last index
  std::vector<std::int32_t> previous_token_;            // the same of single tokens
};

}  // namespace forerun
