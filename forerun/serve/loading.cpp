#include "forerun/serve/loading.h"

#include <optional>
#include <string>

#include "forerun/serve/api_error.h"
#include "forerun/serve/origins.h"

namespace forerun::serve {
namespace {

HttpResponse still_loading() {
  return {.status = 503,
          .headers = {{"Retry-After", "1"}},
          .body = R"({"error":{"message":"Loading model","type":"unavailable_error",)"
                  R"("param":null,"code":503}})"};
}

}  // namespace

HttpHandler loading_handler(std::vector<std::string> origins) {
  return {
      .check = [origins](const HttpRequest& head) -> std::optional<HttpResponse> {
        if (head.method == "OPTIONS" && may_ask(origins, head.origin)) return preflight();
        const bool reads = head.method == "GET" || head.method == "HEAD";
        if (reads && page_file(head.path) != nullptr) return std::nullopt;
        return still_loading();
      },
      .handle =
          [](const HttpRequest& request, const Exchange& exchange) {
            const PageFile* file = page_file(request.path);
            exchange.send(file == nullptr ? still_loading() : to_response(*file));
          },
      .fields = [origins](const HttpRequest& head) { return origin_fields(origins, head); },
      .refuse = [](unsigned status,
                   const std::string& message) { return to_response(ApiError(status, message)); }};
}

HttpResponse to_response(const PageFile& file) {
  return {.content_type = std::string(file.type),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
                       "'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
                       "frame-ancestors 'none'"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}},
          .body = std::string(file.content)};
}

}  // namespace forerun::serve
