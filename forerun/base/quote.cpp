#include "forerun/base/quote.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include "forerun/base/utf8.h"

namespace forerun {
namespace {

bool is_visible(const Utf8Char& c) {
  const auto kind = utf8proc_category(static_cast<utf8proc_int32_t>(c.code));
  return c.valid && kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZL;
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (at >= limit) return out + "...";
    const Utf8Char c = first_char(text.substr(at));
    const std::string_view bytes = text.substr(at, c.size);
    at += c.size;
    if (is_visible(c)) {
      out += bytes;
    } else {
      for (const char b : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(b));
    }
  }
  return out;
}

std::string quote(std::string_view text, std::size_t limit) {
  return fmt::format("'{}'", printable(text, limit));
}

}  // namespace forerun
