#include "forerun/formats/tokenizer/internal/byte_alphabet.h"

#include <array>

#include "forerun/base/utf8.h"

namespace forerun::internal {
namespace {

constexpr char32_t kFirstExtra = 0x100;
constexpr int kExtras = 68;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_char_of_byte() {
  std::array<char32_t, 256> out{};
  char32_t next = kFirstExtra;
  for (unsigned byte = 0; byte < 256; ++byte) out[byte] = stands_for_itself(byte) ? byte : next++;
  return out;
}

constexpr std::array<char32_t, 256> kCharOfByte = make_char_of_byte();

constexpr std::array<unsigned char, kExtras> make_byte_of_extra() {
  std::array<unsigned char, kExtras> out{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (kCharOfByte[byte] >= kFirstExtra) {
      out[kCharOfByte[byte] - kFirstExtra] = static_cast<unsigned char>(byte);
    }
  }
  return out;
}

constexpr std::array<unsigned char, kExtras> kByteOfExtra = make_byte_of_extra();

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += to_utf8(kCharOfByte[static_cast<unsigned char>(c)]);
  return out;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    if (!c.valid) return std::nullopt;
    if (c.code < 256 && stands_for_itself(c.code)) {
      out += static_cast<char>(c.code);
    } else if (c.code >= kFirstExtra && c.code < kFirstExtra + kExtras) {
      out += static_cast<char>(kByteOfExtra[c.code - kFirstExtra]);
    } else {
      return std::nullopt;
    }
    text.remove_prefix(c.size);
  }
  return out;
}

}  // namespace forerun::internal
