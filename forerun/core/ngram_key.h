#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// N-grams of up to three tokens as keys of a KeyTable: 21 bits a token, the newest lowest. The
/// empty one is 0.
namespace ngram_key {

inline constexpr int kBits = 21;
inline constexpr Token kMostTokens = (Token{1} << kBits) - 1;  ///< ids are below
inline constexpr std::uint64_t kEmpty = 0;

/// The n-gram with a token more.
inline std::uint64_t with(std::uint64_t gram, Token token) noexcept {
  return gram << kBits | (static_cast<std::uint64_t>(token) + 1);
}
/// Its number of tokens.
inline int order(std::uint64_t gram) noexcept {
  return gram >> (2 * kBits) != 0 ? 3 : gram >> kBits != 0 ? 2 : gram != 0 ? 1 : 0;
}
/// Its newest token; those before it.
inline Token newest(std::uint64_t gram) noexcept {
  return static_cast<Token>(gram & ((std::uint64_t{1} << kBits) - 1)) - 1;
}
inline std::uint64_t before_newest(std::uint64_t gram) noexcept { return gram >> kBits; }
/// Without its oldest token.
inline std::uint64_t without_oldest(std::uint64_t gram) noexcept {
  return gram & ((std::uint64_t{1} << ((order(gram) - 1) * kBits)) - 1);
}
/// All its tokens, the oldest first.
inline std::vector<Token> tokens(std::uint64_t gram) {
  std::vector<Token> out(static_cast<std::size_t>(order(gram)));
  for (auto token = out.rbegin(); token != out.rend(); ++token) {
    *token = newest(gram);
    gram = before_newest(gram);
  }
  return out;
}

}  // namespace ngram_key
}  // namespace forerun
