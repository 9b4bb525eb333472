#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forerun::internal {

/// A set of characters: Unicode's scalar values.
class CharSet {
 public:
  CharSet() = default;
  /// The characters from `first` to `last`, both included, without surrogates.
  CharSet(char32_t first, char32_t last);

  static CharSet all() { return {0, 0x10FFFF}; }

  void add(const CharSet& other);
  CharSet others() const;  ///< all that are not in it
  CharSet without(const CharSet& other) const;
  bool has(char32_t c) const;
  bool empty() const noexcept { return ranges_.empty(); }
  /// Its ranges: in order, and with others between them.
  const std::vector<std::pair<char32_t, char32_t>>& ranges() const noexcept { return ranges_; }
  /// States of an automaton over bytes that reads one of them, at most.
  std::size_t states() const;

 private:
  void normalise();

  std::vector<std::pair<char32_t, char32_t>> ranges_;
};

/// The characters of a text; empty: it is no UTF-8.
std::optional<std::u32string> characters_of(std::string_view text);

/// `digits` hexadecimal digits at `from`; empty: they are none, or stand for no character.
std::optional<char32_t> hex_character(std::u32string_view text, std::size_t from,
                                      std::size_t digits);

}  // namespace forerun::internal
