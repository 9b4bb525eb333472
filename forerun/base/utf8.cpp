#include "forerun/base/utf8.h"

#include <algorithm>

namespace forerun {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::string_view kReplacementBytes = "\xEF\xBF\xBD";

struct Lead {
  std::size_t size;    // of the whole character; 0: no character starts so
  unsigned low, high;  // what the second byte may be
};

Lead lead_of(unsigned byte) noexcept {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // no overlong forms
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // nothing beyond U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Char first_char(std::string_view bytes) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.size == 0) return {kReplacement, 1, false, false};
  if (lead.size == 1) return {byte(0), 1, true, false};
  char32_t code = byte(0) & (0xFFU >> (lead.size + 1));
  for (std::size_t i = 1; i < lead.size; ++i) {
    if (i == bytes.size()) return {kReplacement, i, false, true};
    const unsigned low = i == 1 ? lead.low : 0x80;
    const unsigned high = i == 1 ? lead.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {kReplacement, i, false, false};
    code = (code << 6) | (byte(i) & 0x3FU);
  }
  return {code, lead.size, true, false};
}

bool is_valid_utf8(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const Utf8Char c = first_char(bytes);
    if (!c.valid) return false;
    bytes.remove_prefix(c.size);
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Char c = first_char(bytes);
    out += c.valid ? bytes.substr(0, c.size) : kReplacementBytes;
    bytes.remove_prefix(c.size);
  }
  return out;
}

std::size_t cut_suffix(std::string_view bytes) noexcept {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, bytes.size()); ++n) {
    const std::string_view tail = bytes.substr(bytes.size() - n);
    const Utf8Char c = first_char(tail);
    if (c.cut && c.size == n) return n;
  }
  return 0;
}

std::string to_utf8(char32_t code) {
  const auto last = [code](int shift) {
    return static_cast<char>(0x80 | ((code >> shift) & 0x3F));
  };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | (code >> 6)), last(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | (code >> 12)), last(6), last(0)};
  return {static_cast<char>(0xF0 | (code >> 18)), last(12), last(6), last(0)};
}

}  // namespace forerun
