#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forerun::internal {

/// Bytes written as printable characters: printable Latin-1 stands for itself, the 68 other bytes
/// are U+0100 and on, in order. Source: openai/gpt-2, encoder.py, bytes_to_unicode.
std::string to_byte_alphabet(std::string_view bytes);

/// The bytes of `text`, or none if a character of it is outside the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace forerun::internal
