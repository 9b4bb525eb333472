// Schemas that need not be strict: what of them a grammar can keep.

#include <algorithm>
#include <string>

#include "forerun/formats/grammar/internal/schema_converter.h"

namespace forerun::internal {

// A part that cannot be converted allows any value.
std::string SchemaConverter::expression_or_any(const SchemaJson& s, const std::string& where) {
  if (strict_) return expression(s, where);
  const std::size_t depth = depth_;
  try {
    return expression(s.is_object() && s.contains("allOf") ? with_all_of(s) : s, where);
  } catch (const SchemaRefusal&) {
    if (is_full()) throw;
    depth_ = depth;
    ways_ = {{}};
    return any_value();
  }
}

// The part of the schema that a reference names; null: there is none.
const SchemaJson* SchemaConverter::target_of(const SchemaJson& reference) const {
  const std::string path = reference.is_string() ? reference.get<std::string>() : "";
  if (path != "#" && !path.starts_with("#/")) return nullptr;
  try {
    return &root_.at(SchemaJson::json_pointer(path.substr(1)));
  } catch (const SchemaJson::exception&) {
    return nullptr;
  }
}

// A schema with those of its allOf written into it: all properties and what they require, and of
// other words the first. References are followed once.
SchemaJson SchemaConverter::with_all_of(const SchemaJson& s) const {
  SchemaJson out = s;
  const SchemaJson list = s["allOf"];
  out.erase("allOf");
  out.erase("additionalProperties");  // it speaks of the properties beside it alone
  if (!list.is_array()) return out;
  for (const SchemaJson& part : list) {
    const SchemaJson* from = &part;
    if (part.is_object() && part.contains("$ref")) from = target_of(part["$ref"]);
    if (from == nullptr || !from->is_object()) continue;
    for (const auto& [word, value] : from->items()) {
      if (word == "allOf" || word == "additionalProperties") continue;
      if (!out.contains(word)) {
        out[word] = value;
      } else if (word == "required" && value.is_array() && out[word].is_array()) {
        for (const SchemaJson& name : value) out[word].push_back(name);
      } else if (word == "properties" && value.is_object() && out[word].is_object()) {
        for (const auto& [name, inner] : value.items()) {
          if (!out[word].contains(name)) out[word][name] = inner;
        }
      }
    }
  }
  return out;
}

bool SchemaConverter::allows_objects_alone(const SchemaJson& s) const {
  const auto is_object = [](const SchemaJson& a) {
    return a.is_object() && a.contains("type") && a["type"] == "object";
  };
  if (!s.is_object()) return false;
  if (s.contains("type")) return is_object(s);
  if (s.contains("properties")) return true;
  if (s.contains("$ref")) {
    const SchemaJson* const to = target_of(s["$ref"]);
    return to != nullptr && is_object(*to);
  }
  if (s.contains("allOf")) {
    const SchemaJson all = with_all_of(s);
    return is_object(all) || (!all.contains("type") && all.contains("properties"));
  }
  for (const char* word : {"anyOf", "oneOf"}) {
    if (s.contains(word)) return s[word].is_array() && std::ranges::all_of(s[word], is_object);
  }
  return false;
}

// Whether objects have properties beside those that "properties" names, by words that are not kept.
bool SchemaConverter::has_other_properties(const SchemaJson& s) {
  for (const char* word : {"patternProperties", "dependentSchemas", "then", "else"}) {
    if (s.contains(word)) return true;
  }
  for (const char* word : {"anyOf", "oneOf"}) {
    if (!s.contains(word) || !s[word].is_array()) continue;
    for (const SchemaJson& a : s[word]) {
      if (a.is_object() &&
          (a.contains("properties") || a.contains("$ref") || a.contains("allOf"))) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace forerun::internal
