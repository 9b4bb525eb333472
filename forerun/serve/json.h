#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::serve {

/// One line; bytes that are not UTF-8 become U+FFFD.
inline std::string dump(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The object in the body of a request.
/// @throws ApiError 400  no JSON object
nlohmann::json parse_object(std::string_view body);

/// The fields of a request. Null counts as absent. What has another type, or lies out of range, is
/// an ApiError 400 that names the field.
class Fields {
 public:
  /// @param where  before the names in messages: "speculative."
  explicit Fields(const nlohmann::json& object, std::string where = "");

  const nlohmann::json* find(std::string_view name) const;  ///< nullptr: absent or null
  std::optional<double> number(std::string_view name, double least, double most) const;
  std::optional<std::int64_t> whole(std::string_view name, std::int64_t least,
                                    std::int64_t most) const;
  bool flag(std::string_view name, bool otherwise) const;
  std::optional<std::string> text(std::string_view name) const;
  /// A string, or a list of them.
  std::vector<std::string> texts(std::string_view name, std::size_t most) const;
  std::string name_of(std::string_view name) const { return where_ + std::string(name); }

 private:
  const nlohmann::json& object_;
  std::string where_;
};

/// The tokens of a list of whole numbers.
/// @throws ApiError 400  anything else, or a token outside the vocabulary
std::vector<std::int32_t> tokens_of(const nlohmann::json& list, const std::string& param,
                                    std::size_t vocab);

}  // namespace forerun::serve
