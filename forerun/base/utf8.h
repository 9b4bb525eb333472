#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace forerun {

/// The first character of a byte string. Invalid bytes are replaced by maximal subparts: the
/// longest prefix of a well-formed character, at least one byte, becomes one U+FFFD.
/// Source: The Unicode Standard 15.0, section 3.9, table 3-7 and "U+FFFD substitution of maximal
/// subparts".
struct Utf8Char {
  char32_t code;     ///< U+FFFD if the bytes are not a character
  std::size_t size;  ///< bytes taken, at least 1
  bool valid;        ///< well-formed
  bool cut;          ///< not well-formed yet, but more bytes could make it so
};

/// @param bytes  not empty
Utf8Char first_char(std::string_view bytes) noexcept;

bool is_valid_utf8(std::string_view bytes) noexcept;

/// The same text with one U+FFFD for each maximal invalid subpart, as Python's
/// bytes.decode('utf-8', errors='replace') and Rust's String::from_utf8_lossy do.
std::string replace_invalid_utf8(std::string_view bytes);

/// Number of bytes at the end that begin an incomplete character: 0 to 3.
std::size_t cut_suffix(std::string_view bytes) noexcept;

/// @param code  a scalar value: not a surrogate, at most U+10FFFF
std::string to_utf8(char32_t code);

}  // namespace forerun
