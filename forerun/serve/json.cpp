#include "forerun/serve/json.h"

#include <fmt/format.h>

#include <cmath>

#include "forerun/base/json_text.h"
#include "forerun/serve/api_error.h"

namespace forerun::serve {
namespace {

constexpr JsonLimits kLimits{.depth = 32, .values = 1'000'000};

}  // namespace

nlohmann::json parse_object(std::string_view body) {
  if (body.empty()) throw ApiError(400, "the body is empty: send a JSON object");
  Result<nlohmann::json> parsed = parse_json(body, kLimits);
  if (!parsed) throw ApiError(400, "the body is no JSON: " + parsed.error().message);
  if (!parsed->is_object()) {
    throw ApiError(400, fmt::format("the body is a JSON {}: send an object", parsed->type_name()));
  }
  return *std::move(parsed);
}

Fields::Fields(const nlohmann::json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    const std::string name = where_.substr(0, where_.size() - (where_.empty() ? 0 : 1));
    throw bad_field(name, fmt::format("is a JSON {}: send an object", object.type_name()));
  }
}

const nlohmann::json* Fields::find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    throw bad_field(name_of(name), fmt::format("is a JSON {}: send a number", value->type_name()));
  }
  const double number = value->get<double>();
  if (!(number >= least && number <= most)) {
    throw bad_field(name_of(name),
                    fmt::format("is {}: send a number from {} to {}", number, least, most));
  }
  return number;
}

std::optional<std::int64_t> Fields::whole(std::string_view name, std::int64_t least,
                                          std::int64_t most) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::string wanted = fmt::format("send a whole number from {} to {}", least, most);
  std::int64_t number = 0;
  if (value->is_number_unsigned()) {
    const auto wide = value->get<std::uint64_t>();
    if (wide > static_cast<std::uint64_t>(INT64_MAX)) {
      throw bad_field(name_of(name), fmt::format("is {}: {}", wide, wanted));
    }
    number = static_cast<std::int64_t>(wide);
  } else if (value->is_number_integer()) {
    number = value->get<std::int64_t>();
  } else if (value->is_number_float() && std::trunc(value->get<double>()) == value->get<double>() &&
             std::abs(value->get<double>()) < 9e15) {
    number = static_cast<std::int64_t>(value->get<double>());  // 5.0
  } else {
    throw bad_field(name_of(name), fmt::format("is {}: {}",
                                               value->is_number_float()
                                                   ? fmt::format("{}", value->get<double>())
                                                   : fmt::format("a JSON {}", value->type_name()),
                                               wanted));
  }
  if (number < least || number > most) {
    throw bad_field(name_of(name), fmt::format("is {}: {}", number, wanted));
  }
  return number;
}

bool Fields::flag(std::string_view name, bool otherwise) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    throw bad_field(name_of(name),
                    fmt::format("is a JSON {}: send true or false", value->type_name()));
  }
  return value->get<bool>();
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    throw bad_field(name_of(name), fmt::format("is a JSON {}: send a string", value->type_name()));
  }
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(std::string_view name, std::size_t most) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) {
    throw bad_field(name_of(name), fmt::format("is a JSON {}: send a string, or a list of strings",
                                               value->type_name()));
  }
  if (value->size() > most) {
    throw bad_field(name_of(name),
                    fmt::format("holds {} strings: send {} at most", value->size(), most));
  }
  std::vector<std::string> out;
  for (const nlohmann::json& v : *value) {
    if (!v.is_string()) {
      throw bad_field(name_of(name),
                      fmt::format("holds a JSON {}: send strings alone", v.type_name()));
    }
    out.push_back(v.get<std::string>());
  }
  return out;
}

std::vector<std::int32_t> tokens_of(const nlohmann::json& list, const std::string& param,
                                    std::size_t vocab) {
  if (!list.is_array()) {
    throw bad_field(param, fmt::format("is a JSON {}: send a list of tokens", list.type_name()));
  }
  std::vector<std::int32_t> out;
  out.reserve(list.size());
  for (const nlohmann::json& v : list) {
    if (!v.is_number_integer()) {
      throw bad_field(param, fmt::format("holds a JSON {}: send whole numbers", v.type_name()));
    }
    // A number beyond int64 is negative here.
    const auto token = v.get<std::int64_t>();
    if (token < 0 || static_cast<std::uint64_t>(token) >= vocab) {
      throw bad_field(param,
                      fmt::format("holds {}: the model's tokens are 0 to {}", v.dump(), vocab - 1));
    }
    out.push_back(static_cast<std::int32_t>(token));
  }
  return out;
}

}  // namespace forerun::serve
