#include "forerun/serve/origins.h"

#include <fmt/format.h>

#include <algorithm>

namespace forerun::serve {

bool may_ask(std::span<const std::string> origins, const std::string& origin) {
  return !origin.empty() && std::any_of(origins.begin(), origins.end(), [&](const auto& known) {
    return known == "*" || known == origin;
  });
}

std::string origin_fields(std::span<const std::string> origins, const HttpRequest& head) {
  if (origins.empty()) return {};
  if (!may_ask(origins, head.origin)) return "Vary: Origin\r\n";
  return fmt::format("Access-Control-Allow-Origin: {}\r\nVary: Origin\r\n", head.origin);
}

HttpResponse preflight() {
  return {.headers = {{"Access-Control-Allow-Methods", "GET, POST"},
                      {"Access-Control-Allow-Headers", "*, Authorization"},
                      {"Access-Control-Max-Age", "3600"}},
          .body = ""};
}

}  // namespace forerun::serve
