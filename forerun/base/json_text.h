#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "forerun/base/result.h"

namespace forerun {

inline constexpr int kMaxJsonDepth = 64;
inline constexpr std::size_t kMaxJsonBytes = std::size_t{256} << 20;

/// Reads one JSON document from untrusted text.
/// @param text       UTF-8, at most kMaxJsonBytes; a byte order mark is skipped
/// @param max_depth  objects and arrays inside each other; deeper text is refused, since walking
/// the
///                   result (copying, printing) recurses
/// Errors: syntax (NaN and Infinity too, which are not JSON), invalid UTF-8, numbers beyond
/// float64, a key twice in one object, too deep, too long. The message gives line and column or
/// byte.
Result<nlohmann::json> parse_json(std::string_view text, int max_depth = kMaxJsonDepth);

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
