#pragma once

#include <stdexcept>
#include <string>

#include "forerun/serve/http/http.h"

namespace forerun::serve {

/// A request that is answered with an error object of OpenAI's form.
class ApiError : public std::runtime_error {
 public:
  ApiError(unsigned status, const std::string& message, std::string param = "",
           std::string code = "");

  unsigned status() const noexcept { return status_; }
  const std::string& param() const noexcept { return param_; }
  const std::string& code() const noexcept { return code_; }
  /// {"error": {"message", "type", "param", "code"}}
  std::string body() const;

 private:
  unsigned status_;
  std::string param_, code_;
};

/// A wrong value of the field `param`.
inline ApiError bad_field(const std::string& param, const std::string& message) {
  return {400, "'" + param + "' " + message, param};
}

HttpResponse to_response(const ApiError& error);

}  // namespace forerun::serve
