#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "forerun/base/result.h"

namespace forerun {

inline constexpr std::size_t kMaxJsonBytes = std::size_t{256} << 20;

/// What a document may hold; beyond it parsing stops.
struct JsonLimits {
  int depth = 64;  ///< objects and arrays inside each other: walking the result recurses
  std::size_t values = 4'000'000;  ///< a value takes up to 100 bytes; large vocabularies have 2 M
};

/// Reads one JSON document from untrusted text.
/// @param text       UTF-8, at most kMaxJsonBytes; a byte order mark is skipped
/// Errors: syntax (NaN and Infinity too, which are not JSON), invalid UTF-8, numbers beyond
/// float64, a key twice in one object, too deep, too many values, too long. The message gives line
/// and column or byte.
Result<nlohmann::json> parse_json(std::string_view text, const JsonLimits& limits = {});

/// The value of `key` as a T: std::int64_t (a whole number in range), double, bool or std::string.
/// Errors: `object` is not an object, no such key, another type; the message names key and type
/// found.
template <class T>
Result<T> json_field(const nlohmann::json& object, std::string_view key);

/// As json_field, but `fallback` where the key is missing or null. A value of another type is an
/// error.
template <class T>
Result<T> json_field_or(const nlohmann::json& object, std::string_view key, T fallback) {
  if (object.is_object()) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return fallback;
  }
  return json_field<T>(object, key);
}

}  // namespace forerun
