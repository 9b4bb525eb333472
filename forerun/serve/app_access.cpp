// Which requests are answered: by key, host, origin, path and method.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "forerun/base/quote.h"
#include "forerun/serve/api_error.h"
#include "forerun/serve/app.h"
#include "forerun/serve/http/host_name.h"
#include "forerun/serve/origins.h"
#include "forerun/serve/page/page.h"
#include "forerun/serve/path_hint.h"

namespace forerun::serve {
namespace {

using nlohmann::json;

// Takes as long for a wrong key as for a right one.
bool same(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^
                              static_cast<unsigned char>(b[b.empty() ? 0 : i % b.size()]));
  }
  return difference == 0;
}

}  // namespace

bool App::knows(const std::string& authorization) const {
  constexpr std::string_view kScheme = "bearer ";  // in any case (RFC 9110, 11.1)
  const auto same_letter = [](char a, char b) {
    return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
  };
  if (authorization.size() < kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), authorization.begin(), same_letter)) {
    return false;
  }
  const std::string key = authorization.substr(kScheme.size());
  bool known = false;
  for (const std::string& k : options_.keys) known = same(key, k) || known;
  return known;
}

// Who can reach a server of this machine alone, which needs no key, is a program of this machine,
// or a page in a browser that has a name of its own resolved to it.
bool App::is_called(const std::string& host) const {
  if (host.empty() || !options_.keys.empty() || !http_.is_local()) return true;
  const std::string name = host_name(host);
  return is_fixed_host(name) ||
         std::any_of(options_.names.begin(), options_.names.end(),
                     [&](const std::string& known) { return host_name(known) == name; });
}

std::optional<HttpResponse> App::check(const HttpRequest& head) const {
  const auto refused = [&](const ApiError& error) {
    log(head, error.status(), json::object());
    return std::optional(to_response(error));
  };
  if (!is_called(head.host)) {
    return refused(ApiError(
        403, fmt::format("requests for the host {} are refused: start the server with --allow-host "
                         "and that name, or with keys",
                         quote(host_name(head.host)))));
  }
  const Route* route = route_of(head.path);
  const bool page = page_file(head.path) != nullptr;
  if (route == nullptr && !page) {
    const std::string_view hint = path_hint(plain_path(head.path));
    return refused(
        ApiError(404, fmt::format("there is nothing at {} {}{}{}", head.method.substr(0, 16),
                                  head.path.substr(0, 200), hint.empty() ? "" : ": ", hint)));
  }
  const bool may = may_ask(options_.origins, head.origin);
  if (head.method == "OPTIONS" && may) {
    log(head, 200, json::object());
    return preflight();
  }
  const std::string method = page ? "GET" : route->method;
  if (head.method != method && !(head.method == "HEAD" && method == "GET")) {
    auto response =
        refused(ApiError(405, fmt::format("send {} requests to {}", method, head.path)));
    response->headers.emplace_back("Allow", method);
    return response;
  }
  // A page of another site may send requests from a browser, but must not be obeyed.
  if (!head.origin.empty() && head.origin != "http://" + head.host &&
      head.origin != "https://" + head.host && !may) {
    return refused(ApiError(
        403, fmt::format("requests from pages of other sites are refused: start the server with "
                         "--allow-origin {}",
                         quote(head.origin))));
  }
  if (page) return std::nullopt;
  if (!route->open && !options_.keys.empty() && !knows(head.authorization)) {
    return refused(ApiError(401,
                            head.authorization.empty()
                                ? "this server needs a key: send 'Authorization: Bearer KEY'"
                                : "the key is not one of this server's",
                            "", "invalid_api_key"));
  }
  if (route->makes && draining_) {
    return refused(ApiError(503, "the server is about to end: try another, or again later"));
  }
  return std::nullopt;
}

}  // namespace forerun::serve
