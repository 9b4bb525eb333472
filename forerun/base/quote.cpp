#include "forerun/base/quote.h"

#include <fmt/format.h>

namespace forerun {

std::string quote(std::string_view text, std::size_t limit) {
  std::string out = "'";
  for (const char c : text.substr(0, limit)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  out += text.size() > limit ? "...'" : "'";
  return out;
}

}  // namespace forerun
