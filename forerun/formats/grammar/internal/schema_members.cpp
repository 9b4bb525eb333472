// Properties of an object whose values stand apart from each other.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "forerun/base/quote.h"
#include "forerun/formats/grammar/internal/schema_converter.h"

namespace forerun::internal {
namespace {

constexpr int kMostReferences = 32;

// Whether a tag holds it.
bool fits_a_tag(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c >= ' ' && c != '<' && c != '>' && c != 0x7F;
  });
}

}  // namespace

// The rule of any value where one stands: bare, it is read as the JSON that it spells, or as text.
std::string SchemaConverter::any_value() {
  if (!is_bare_) return "any";
  kinds_ |= kText;
  return bare_->rule;
}

std::string SchemaConverter::value_literal(const SchemaJson& value, const std::string& where) {
  if (!is_bare_) return ebnf_literal(value);
  const std::string written = value.is_string() ? value.get<std::string>() : value.dump();
  if (written.find(bare_->end) != written.npos) {
    refuse(where, fmt::format("allows a value with {}, which ends values of the model's calls",
                              quote(bare_->end, 60)));
  }
  kinds_ |= value.is_structured() ? kStructure : value.is_string() ? kText : 0U;
  if (value.is_string()) return ebnf_text(written);
  if (bare_->python && value.is_boolean()) {
    return value.get<bool>() ? R"("true" | "True")" : R"("false" | "False")";
  }
  return bare_->python && value.is_null() ? R"("null" | "None")" : ebnf_text(written);
}

// What is not known to be text from its schema is JSON, so that a value which may be both is text.
std::string SchemaConverter::member_rule(const SchemaJson& schema, const std::string& where) {
  is_bare_ = true;
  kinds_ = 0;
  const std::string rule = rule_of(schema, where);
  is_bare_ = false;
  if (kinds_ != (kText | kStructure)) return rule;
  if (strict_) {
    refuse(where,
           "allows strings beside objects or lists, which the model's calls do not tell apart");
  }
  return bare_->rule;
}

// The schema that names the properties, and its place; empty: it need not be strict, and objects
// have any.
std::optional<SchemaJson> SchemaConverter::object_schema(std::string& where) const {
  SchemaJson s = root_;
  for (int i = 0; s.is_object() && (s.contains("$ref") || (strict_ && s.contains("allOf"))); ++i) {
    const char* const word = s.contains("$ref") ? "$ref" : "allOf";
    only(s, where, {word});
    if (i == kMostReferences) refuse(where, "is referred to too deep");
    const SchemaJson of = s[word];
    if (word == std::string_view("allOf")) {
      if (!of.is_array() || of.size() != 1) {
        refuse(where, "holds an allOf that is not of one schema: write them as one");
      }
      s = of[0];
      where += "/allOf/0";
    } else if (const SchemaJson* const to = target_of(of)) {
      s = SchemaJson(*to);
      where = of.get<std::string>();
    } else {
      refuse(where, "refers to what is not there, or to something outside the schema");
    }
  }
  if (strict_) {
    if (s == true || (s.is_object() && !s.contains("type") && !s.contains("properties"))) {
      if (s.is_object()) only(s, where, {});
      return std::nullopt;
    }
    const bool object = s.is_object() && (!s.contains("type") || s["type"] == "object");
    if (!object) refuse(where, "must be of type object: it has the parameters of a tool");
    only(s, where, {"type", "properties", "required", "additionalProperties"});
    return s;
  }
  if (!allows_objects_alone(root_)) return std::nullopt;
  if (s.contains("allOf")) s = with_all_of(s);
  if (!s.is_object() || has_other_properties(s)) return std::nullopt;
  return s;
}

SchemaMembers SchemaConverter::members_of(const SchemaJson& s, const std::string& where) {
  const auto [properties, further, required] = object_words(s, where);
  SchemaMembers out;
  const std::string place = where + "/additionalProperties";
  const auto add = [&](const std::string& name, const SchemaJson& schema, const std::string& at) {
    const bool needed = required.contains(name);
    if (schema == false && !needed) return;
    if (!fits_a_tag(name)) {
      if (!strict_ && !needed) return;
      refuse(at, "has a name that the model's calls cannot hold: rename it");
    }
    out.named.push_back({name, member_rule(schema, at), needed});
  };
  for (const auto& [name, schema] : properties.items()) {
    add(name, schema, where + "/properties/" + pointer_part(name));
  }
  for (const std::string& name : required) {
    if (properties.contains(name)) continue;
    if (further == false) {
      refuse(where, fmt::format("requires {}, which it does not allow", quote(name, 60)));
    }
    add(name, further, place);
  }
  if (properties.empty() && required.empty() && further != false) {
    out.others = further == true ? bare_->rule : member_rule(further, place);
  }
  return out;
}

SchemaMembers SchemaConverter::add_members(std::string_view text, bool strict,
                                           const BareText& bare) {
  begin(text, strict);
  bare_ = bare;
  std::string where = "#";
  SchemaMembers out{.named = {}, .others = bare.rule};
  try {
    if (const auto schema = object_schema(where)) out = members_of(*schema, where);
  } catch (const SchemaRefusal&) {
    is_bare_ = false;
    if (strict_ || is_full()) throw;
    out = {.named = {}, .others = bare.rule};
  }
  check_values();
  return out;
}

}  // namespace forerun::internal
