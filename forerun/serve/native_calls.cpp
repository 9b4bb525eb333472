#include "forerun/serve/native_calls.h"

#include <algorithm>
#include <utility>

namespace forerun::serve {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMostReferences = 32;
constexpr std::string_view kBlank = " \n\r\t", kCallEnd = "</tool_call>";

// The tags of a form. Between a key and its value white space may stand.
struct Tags {
  std::string_view key, key_end, value, value_end, last;
};

const Tags& tags_of(CallForm form) {
  static constexpr Tags kQwen = {"<parameter=", ">", "", "\n</parameter>", "</function>"};
  static constexpr Tags kGlm = {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", ""};
  return form == CallForm::kParameters ? kQwen : kGlm;
}

// The parts of a list of schemas.
template <class Of>
bool any_part(const json& schema, const char* word, Of&& of) {
  return schema[word].is_array() && std::any_of(schema[word].begin(), schema[word].end(), of);
}

template <class Of>
bool all_parts(const json& schema, const char* word, Of&& of) {
  return !schema[word].is_array() || std::all_of(schema[word].begin(), schema[word].end(), of);
}

bool has_type(const json& schema, const char* name) {
  const json& type = schema["type"];
  if (type.is_array()) return std::find(type.begin(), type.end(), name) != type.end();
  return type == name;
}

/// A part of a schema, read as far as values of parameters need it.
struct Schema {
  const json& root;
  const json* part;
  int depth = 0;

  Schema at(const json& other) const { return {root, &other, depth + 1}; }

  // The part that it refers to; null: there is none.
  const json* target() const {
    const json& to = (*part)["$ref"];
    if (depth > kMostReferences || !to.is_string()) return nullptr;
    const std::string& path = to.get_ref<const std::string&>();
    if (!path.starts_with('#')) return nullptr;
    try {
      return &root.at(json::json_pointer(path.substr(1)));
    } catch (const json::exception&) {
      return nullptr;
    }
  }

  // That of a property; null: of any value.
  const json* property(const std::string& key) const {
    if (!part->is_object() || depth > kMostReferences) return nullptr;
    if (part->contains("$ref")) {
      const json* const to = target();
      return to == nullptr ? nullptr : at(*to).property(key);
    }
    if (const auto all = part->find("properties"); all != part->end() && all->is_object()) {
      if (const auto found = all->find(key); found != all->end()) return &*found;
    }
    if (part->contains("allOf") && (*part)["allOf"].is_array()) {
      for (const json& one : (*part)["allOf"]) {
        if (const json* const found = at(one).property(key)) return found;
      }
    }
    const auto others = part->find("additionalProperties");
    return others != part->end() && others->is_object() ? &*others : nullptr;
  }

  bool may_be_text() const {
    const json& s = *part;
    if (!s.is_object() || depth > kMostReferences) return true;
    const auto of = [&](const json& one) { return at(one).may_be_text(); };
    if (s.contains("$ref")) {
      const json* const to = target();
      return to == nullptr || of(*to);
    }
    if (s.contains("const")) return s["const"].is_string();
    if (s.contains("enum")) {
      return any_part(s, "enum", [](const json& value) { return value.is_string(); });
    }
    if (s.contains("type")) {
      constexpr const char* kOthers[] = {"object", "array", "integer", "number", "boolean", "null"};
      const bool other = std::any_of(std::begin(kOthers), std::end(kOthers),
                                     [&](const char* name) { return has_type(s, name); });
      return has_type(s, "string") || !other;
    }
    if (s.contains("anyOf")) return any_part(s, "anyOf", of);
    if (s.contains("oneOf")) return any_part(s, "oneOf", of);
    if (s.contains("allOf")) return all_parts(s, "allOf", of);
    return !s.contains("properties") && !s.contains("items") && !s.contains("prefixItems");
  }

  // Whether a value that is no string satisfies it; what is in objects and lists is not looked at.
  bool allows(const json& value) const {
    const json& s = *part;
    if (!s.is_object() || depth > kMostReferences) return s != false;
    const auto of = [&](const json& one) { return at(one).allows(value); };
    if (s.contains("$ref")) {
      const json* const to = target();
      return to == nullptr || of(*to);
    }
    if (s.contains("const") && s["const"] != value) return false;
    if (s.contains("enum") && !any_part(s, "enum", [&](const json& v) { return v == value; })) {
      return false;
    }
    if (s.contains("type") && !is_of_type(value)) return false;
    if (value.is_number() && !is_within(value.get<double>())) return false;
    if (s.contains("anyOf") && !any_part(s, "anyOf", of)) return false;
    if (s.contains("oneOf") && !any_part(s, "oneOf", of)) return false;
    return !s.contains("allOf") || all_parts(s, "allOf", of);
  }

  bool is_of_type(const json& value) const {
    const json& s = *part;
    if (value.is_number_integer() && has_type(s, "integer")) return true;
    return has_type(s, value.is_number()    ? "number"
                       : value.is_boolean() ? "boolean"
                       : value.is_null()    ? "null"
                       : value.is_array()   ? "array"
                                            : "object");
  }

  bool is_within(double x) const {
    const auto bound = [&](const char* word, auto&& kept) {
      const auto found = part->find(word);
      return found == part->end() || !found->is_number() || kept(found->get<double>());
    };
    return bound("minimum", [&](double b) { return x >= b; }) &&
           bound("maximum", [&](double b) { return x <= b; }) &&
           bound("exclusiveMinimum", [&](double b) { return x > b; }) &&
           bound("exclusiveMaximum", [&](double b) { return x < b; });
  }
};

// Templates of Qwen write these values so.
std::optional<ordered_json> python_value(std::string_view text) {
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "None") return nullptr;
  return std::nullopt;
}

// Whether the beginning of a JSON text stops within a string.
bool stops_in_string(std::string_view text) {
  bool quoted = false, escaped = false;
  for (const char c : text) {
    if (escaped) {
      escaped = false;
    } else if (c == '\\') {
      escaped = quoted;
    } else if (c == '"') {
      quoted = !quoted;
    }
  }
  return quoted;
}

}  // namespace

NativeCalls::NativeCalls(CallForm form, std::span<const Tool> tools) : form_(form) {
  for (const Tool& tool : tools) {
    schemas_[tool.name] = tool.parameters.empty() ? json(true) : json::parse(tool.parameters);
  }
}

bool NativeCalls::may_be_text(const std::string& tool, const std::string& key) const {
  const json& root = schemas_.at(tool);
  const json* const schema = Schema{root, &root}.property(key);
  return schema == nullptr || Schema{root, schema}.may_be_text();
}

ordered_json NativeCalls::value(const std::string& tool, const std::string& key,
                                std::string_view text) const {
  const json& root = schemas_.at(tool);
  const json* const schema = Schema{root, &root}.property(key);
  const bool may_be_text = schema == nullptr || Schema{root, schema}.may_be_text();
  const bool plain = may_be_text && (text.empty() || text.find_first_of(kBlank) == 0 ||
                                     kBlank.find(text.back()) != kBlank.npos);
  if (plain) return text;
  ordered_json parsed = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!may_be_text) {
    if (!parsed.is_discarded()) return parsed;
    if (form_ == CallForm::kParameters) {
      if (const auto value = python_value(text)) return *value;
    }
    return text;
  }
  // Of a whole number of more than 64 bits digits would be lost.
  const bool rounded = parsed.is_number_float() && text.find_first_of(".eE") == text.npos;
  if (parsed.is_discarded() || parsed.is_string() || rounded) return text;
  return schema == nullptr || Schema{root, schema}.allows(json(parsed)) ? parsed
                                                                        : ordered_json(text);
}

std::size_t NativeCallReader::read(std::string_view text) {
  for (bool more = true; more;) {
    switch (place_) {
      case Place::kName:
        more = name(text);
        break;
      case Place::kNext:
        if (text.substr(at_).starts_with(kCallEnd)) return at_;
        more = next(text);
        break;
      case Place::kValue:
        more = value(text);
        break;
      case Place::kBroken: {
        const std::size_t end = text.find(kCallEnd, at_);
        at_ = std::max(at_, text.size() - std::min(text.size(), kCallEnd.size()));
        return end;
      }
    }
  }
  return std::string::npos;
}

bool NativeCallReader::name(std::string_view text) {
  constexpr std::string_view kFunction = "<function=";
  const bool qwen = calls_->form() == CallForm::kParameters;
  const std::size_t end = qwen ? text.find('>') : text.find_first_of("\n<");
  if (end == text.npos) return false;
  std::string_view head = text.substr(0, end);
  head.remove_prefix(std::min(head.find_first_not_of(kBlank), head.size()));
  bool good = !qwen || head.starts_with(kFunction);
  if (good && qwen) head.remove_prefix(kFunction.size());
  if (!qwen) head = head.substr(0, head.find_last_not_of(kBlank) + 1);
  name_ = head;
  good = good && calls_->knows(name_);
  place_ = good ? Place::kNext : Place::kBroken;
  if (good) at_ = end + (qwen ? 1 : 0);
  return true;
}

bool NativeCallReader::next(std::string_view text) {
  const Tags& tags = tags_of(calls_->form());
  at_ = std::min(text.find_first_not_of(kBlank, at_), text.size());
  const std::string_view rest = text.substr(at_);
  if (kCallEnd.starts_with(rest)) return rest.size() == kCallEnd.size();
  if (over_) {
    place_ = rest.starts_with(kCallEnd) ? place_ : Place::kBroken;
    return true;
  }
  if (rest.starts_with(kCallEnd)) return true;
  if (tags.key.starts_with(rest) && rest.size() < tags.key.size()) return false;
  if (!tags.last.empty() && tags.last.starts_with(rest) && rest.size() < tags.last.size()) {
    return false;
  }
  if (!tags.last.empty() && rest.starts_with(tags.last)) {
    over_ = true;
    at_ += tags.last.size();
    return true;
  }
  if (!rest.starts_with(tags.key)) {
    place_ = Place::kBroken;
    return true;
  }
  const std::size_t end = rest.find(tags.key_end, tags.key.size());
  if (end == rest.npos) return false;
  std::size_t from = end + tags.key_end.size();
  if (!tags.value.empty()) {
    from = rest.find_first_not_of(kBlank, from);
    if (from == rest.npos) return false;
    const std::string_view opened = rest.substr(from, tags.value.size());
    if (opened != tags.value) {
      if (tags.value.starts_with(opened)) return false;
      place_ = Place::kBroken;
      return true;
    }
    from += tags.value.size();
  }
  key_ = rest.substr(tags.key.size(), end - tags.key.size());
  from_ = at_ = at_ + from;
  place_ = Place::kValue;
  return true;
}

bool NativeCallReader::value(std::string_view text) {
  const std::string_view end = tags_of(calls_->form()).value_end;
  const std::size_t found = text.find(end, at_);
  if (found == text.npos) {
    at_ = std::max(at_, text.size() - std::min(text.size(), end.size() - 1));
    return false;
  }
  std::string_view written = text.substr(from_, found - from_);
  if (!calls_->may_be_text(name_, key_) && stops_in_string(written)) {
    at_ = found + 1;
    return true;
  }
  if (calls_->form() == CallForm::kParameters && written.starts_with('\n')) {
    written.remove_prefix(1);
  }
  arguments_[key_] = calls_->value(name_, key_, written);
  at_ = found + end.size();
  place_ = Place::kNext;
  return true;
}

std::optional<std::string> NativeCallReader::take() {
  const bool whole = place_ == Place::kNext;
  const ordered_json call = {{"name", std::move(name_)}, {"arguments", std::move(arguments_)}};
  *this = NativeCallReader(calls_);
  if (!whole) return std::nullopt;
  return call.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace forerun::serve
