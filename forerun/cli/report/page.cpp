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
