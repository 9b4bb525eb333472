#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/base/result.h"
#include "forerun/models/decoder_config.h"

namespace forerun::internal {

inline Error config_error(const std::string& message) { return {"config.json: " + message}; }

/// Reads fields of a config.json; keeps the first missing or mistyped one, which ends the parse.
class Fields {
 public:
  /// @param what  what the file should describe, for messages
  explicit Fields(const nlohmann::json& config, const char* what = "model")
      : config_(config), what_(what) {}

  std::int64_t integer(const char* key) { return integer(key, std::nullopt); }
  std::int64_t integer(const char* key, std::optional<std::int64_t> otherwise) {
    const nlohmann::json* v = find(key);
    const bool fits = v != nullptr && v->is_number_integer() &&
                      !(v->is_number_unsigned() && v->get<std::uint64_t>() > INT64_MAX);
    if (fits) return v->get<std::int64_t>();
    return fallback<std::int64_t>(key, v, "an integer", otherwise);
  }
  double number(const char* key, std::optional<double> otherwise) {
    const nlohmann::json* v = find(key);
    if (v != nullptr && v->is_number()) return v->get<double>();
    return fallback<double>(key, v, "a number", otherwise);
  }
  bool flag(const char* key, bool otherwise) {
    const nlohmann::json* v = find(key);
    if (v != nullptr && v->is_boolean()) return v->get<bool>();
    return fallback<bool>(key, v, "true or false", otherwise);
  }
  std::string text(const char* key, std::optional<std::string> otherwise) {
    const nlohmann::json* v = find(key);
    if (v != nullptr && v->is_string()) return v->get<std::string>();
    return fallback<std::string>(key, v, "a string", std::move(otherwise));
  }
  /// The value if present and not null.
  const nlohmann::json* find(const char* key) const {
    if (!config_.is_object()) return nullptr;
    const auto it = config_.find(key);
    return it == config_.end() || it->is_null() ? nullptr : &*it;
  }
  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  const std::string& error() const { return error_; }

 private:
  template <class T>
  T fallback(const char* key, const nlohmann::json* found, const char* wanted,
             std::optional<T> otherwise) {
    if (found != nullptr) {
      fail(fmt::format("'{}' is {} where {} is expected", key, printable(found->dump(), 40),
                       wanted));
    } else if (!otherwise) {
      fail(fmt::format("'{}' is missing; the file does not describe a supported {}", key, what_));
    }
    return otherwise.value_or(T{});
  }

  const nlohmann::json& config_;
  const char* what_;
  std::string error_;
};

/// One rope dictionary: "rope_scaling" of older files, "rope_parameters" of newer ones. Errors go
/// to `errors`.
void read_rope(const nlohmann::json& rope, Fields& errors, double& theta, RopeScaling& scaling);

/// The same of files that we write, without the base; null without scaling.
nlohmann::json rope_scaling_json(const RopeScaling& scaling);

}  // namespace forerun::internal
