#include "forerun/base/python_space.h"

#include "forerun/base/utf8.h"

namespace forerun {

bool is_python_space(char32_t c) noexcept {
  return (c >= 0x9 && c <= 0xD) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view python_lstripped(std::string_view text) noexcept {
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    if (!is_python_space(c.code)) break;
    text.remove_prefix(c.size);
  }
  return text;
}

std::string_view python_rstripped(std::string_view text) noexcept {
  std::size_t end = 0;  // after the last character that is no space
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = first_char(text.substr(at));
    at += c.size;
    if (!is_python_space(c.code)) end = at;
  }
  return text.substr(0, end);
}

}  // namespace forerun
