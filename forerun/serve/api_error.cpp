#include "forerun/serve/api_error.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "forerun/serve/json.h"

namespace forerun::serve {
namespace {

const char* type_of(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

ApiError::ApiError(unsigned status, const std::string& message, std::string param, std::string code)
    : std::runtime_error(message),
      status_(status),
      param_(std::move(param)),
      code_(std::move(code)) {}

std::string ApiError::body() const {
  const auto or_null = [](const std::string& s) {
    return s.empty() ? nlohmann::json() : nlohmann::json(s);
  };
  return dump({{"error",
                {{"message", what()},
                 {"type", type_of(status_)},
                 {"param", or_null(param_)},
                 {"code", or_null(code_)}}}});
}

HttpResponse to_response(const ApiError& error) {
  HttpResponse response{.status = error.status(), .body = error.body()};
  if (error.status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status() == 429 || error.status() == 503) {
    response.headers.emplace_back("Retry-After", "1");
  }
  return response;
}

}  // namespace forerun::serve
