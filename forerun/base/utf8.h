#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace forerun {

/// What stands at the start of a byte string. Invalid bytes are taken in maximal subparts: the
/// longest start of a well-formed character, at least one byte, reads as one U+FFFD. Source: The
/// Unicode Standard 15.0, section 3.9, table 3-7 and "U+FFFD substitution of maximal subparts".
struct Utf8Char {
  char32_t code;     ///< U+FFFD where the bytes are no character
  std::size_t size;  ///< bytes taken, at least 1
  bool valid;        ///< well-formed
  bool cut;          ///< not well-formed yet, but more bytes could make it so
};

/// @param bytes  not empty
Utf8Char first_char(std::string_view bytes) noexcept;

bool is_valid_utf8(std::string_view bytes) noexcept;

/// The same text, with one U+FFFD for each maximal invalid subpart: what Python's
/// bytes.decode('utf-8', errors='replace') and Rust's String::from_utf8_lossy give.
std::string replace_invalid_utf8(std::string_view bytes);

/// How many bytes at the end begin a character that is not complete yet: 0 to 3.
std::size_t cut_suffix(std::string_view bytes) noexcept;

/// @param code  a scalar value: not a surrogate, at most U+10FFFF
std::string to_utf8(char32_t code);

}  // namespace forerun
