#include "forerun/cli/report/page.h"

#include <cmath>

namespace forerun::cli::report {

using nlohmann::json;

json field(const json& object, const char* key) {
  const auto it = object.find(key);  // the end if it is no object
  return it == object.end() ? json() : *it;
}

std::optional<double> number(const json& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t j) -> std::uint32_t {
      return i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U;
    };
    const std::uint32_t word = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kLetters[word >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return out;
}

std::string fill(std::string_view page, const json& data) {
  constexpr std::string_view kMark = "@data@";
  const std::size_t at = page.find(kMark);
  std::string out(page.substr(0, at));
  // ASCII alone, so that U+2028 is escaped too.
  for (const char c : data.dump(-1, ' ', true, json::error_handler_t::replace)) {
    // "<" stands inside strings alone; escaped, it begins neither "</script>" nor "<!--".
    c == '<' ? out += "\\u003c" : out += c;
  }
  return out.append(page.substr(at + kMark.size()));
}

}  // namespace forerun::cli::report
