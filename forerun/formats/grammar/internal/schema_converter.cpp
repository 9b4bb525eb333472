#include "forerun/formats/grammar/internal/schema_converter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "forerun/base/json_text.h"
#include "forerun/base/quote.h"

namespace forerun::internal {
namespace {

constexpr JsonLimits kSchemaLimits{.depth = 32, .values = 20'000};
constexpr std::size_t kMostRules = 10'000;
constexpr std::size_t kMostDepth = 200;  // of references to references
constexpr const char* kRoot = "#";

// White space as models write it, of bounded length: a text of white space alone would never end.
// Of strings no control characters and no halves of characters, escaped or not; one automaton, so
// that masks are known beforehand (20 ms a token less). Those of bounded length have no escapes,
// and bare ones no <. Numbers that a double or 64 bits hold.
constexpr const char* kBasics = R"EBNF(
ws ::= "" | " " | "\n" [ \t]{0,24}
hex ::= [0-9a-fA-F]
character ::= [^"\\\x00-\x1f\ud800-\udfff]
bare ::= [^<\x00\ud800-\udfff]
string ::= Regex("\"([^\"\\\\\\x00-\\x1f\\ud800-\\udfff]|\\\\([\"\\\\/bfnrt]|u([0-9a-cA-Ce-fE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))*\"")
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})? ([eE] [+\-]? [0-9]{1,2})?
boolean ::= "true" | "false"
null ::= "null"
pair ::= string ":" ws any
object ::= "{" ws (pair ("," ws pair)* ws)? "}"
array ::= "[" ws (any ("," ws any)* ws)? "]"
any ::= string | number | boolean | null | object | array
day ::= "0" [1-9] | "1" [0-9] | "2" [0-8]
date ::= [0-9]{4} "-" ("02-" day | ("0" [469] | "11") "-" (day | "29" | "30") | ("0" [13578] | "1" [02]) "-" (day | "29" | "30" | "31"))
time ::= ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})? "Z"
uuid ::= hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}
byte ::= "25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9]? [0-9]
)EBNF";

const std::set<std::string> kAnnotations = {
    "title",       "description",     "default",         "examples", "deprecated",
    "readOnly",    "writeOnly",       "$comment",        "$schema",  "$defs",
    "definitions", "contentEncoding", "contentMediaType"};
const std::set<std::string> kObjectWords = {"properties", "required", "additionalProperties"};
const std::set<std::string> kArrayWords = {"items", "prefixItems", "minItems", "maxItems"};
const std::set<std::string> kStringWords = {"minLength", "maxLength", "format", "pattern"};
const std::set<std::string> kNumberWords = {"minimum", "maximum", "exclusiveMinimum",
                                            "exclusiveMaximum"};

std::string schema_value_type(const SchemaJson& value) {
  if (value.is_number()) {
    const double x = value.get<double>();
    return value.is_number_integer() || x == std::floor(x) ? "integer" : "number";
  }
  return value.is_string()    ? "string"
         : value.is_boolean() ? "boolean"
         : value.is_null()    ? "null"
         : value.is_object()  ? "object"
                              : "array";
}

// Values within others are JSON.
class NotBare {
 public:
  explicit NotBare(bool& bare) : bare_(bare), was_(std::exchange(bare, false)) {}
  ~NotBare() { bare_ = was_; }
  NotBare(const NotBare&) = delete;
  NotBare& operator=(const NotBare&) = delete;

 private:
  bool& bare_;
  bool was_;
};

using Names = std::vector<std::string>;

// The types of "type", which holds one or a list; "" = no name.
Names type_names(const SchemaJson& type) {
  const auto name = [](const SchemaJson& t) { return t.is_string() ? t.get<std::string>() : ""; };
  Names out;
  if (!type.is_array()) return {name(type)};
  for (const SchemaJson& t : type) out.push_back(name(t));
  return out;
}

// Whether a schema's own words narrow it more than its list of alternatives, if one is to be kept.
bool says_more(const SchemaJson& s, const SchemaJson& alternatives) {
  if (s.contains("properties") || s.contains("items")) return true;
  const auto has_form = [](const SchemaJson& a) {
    return a.is_object() && (a.contains("type") || a.contains("properties") || a.contains("$ref") ||
                             a.contains("enum") || a.contains("const"));
  };
  return s.contains("type") &&
         !(alternatives.is_array() && std::ranges::all_of(alternatives, has_form));
}

// Whether it holds a number that may have lost digits: of more than 64 bits.
bool is_rounded(const SchemaJson& value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (value.is_number_float()) return std::abs(value.get<double>()) >= kLimit;
  return value.is_structured() && std::any_of(value.begin(), value.end(), is_rounded);
}

}  // namespace

std::string ebnf_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c >= 0 && (c < 0x20 || c == 0x7f)) {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string ebnf_literal(const SchemaJson& value) {
  return ebnf_text(value.dump(-1, ' ', false, SchemaJson::error_handler_t::replace));
}

void SchemaConverter::begin(std::string_view text, bool strict) {
  if (const auto checked = parse_json(text, kSchemaLimits); !checked) {
    throw SchemaRefusal{checked.error().message};
  }
  root_ = SchemaJson::parse(text);
  strict_ = strict;
  known_ = {};
  needs_.clear();
  ways_.clear();
  kinds_of_.clear();
  depth_ = 0;
  if (!root_.is_object() && !root_.is_boolean()) refuse(kRoot, "must be an object or true");
}

std::string SchemaConverter::add(std::string_view text, bool strict) {
  begin(text, strict);
  const std::string root = rule_of(root_, kRoot);
  check_values();
  return root;
}

std::string SchemaConverter::add_object(std::string_view text, bool strict) {
  const std::string root = add(text, strict);
  const bool any = rules_[std::stoul(root.substr(1))] == "any";
  return any || (!strict && !allows_objects_alone(root_)) ? "object" : root;
}

// Refuses parts of which every value would have to hold another of the same part, without end.
void SchemaConverter::check_values() const {
  std::set<std::string> have;
  const auto written = [&](const std::vector<std::string>& way) {
    return std::all_of(way.begin(), way.end(), [&](const std::string& rule) {
      return have.contains(rule) || !needs_.contains(rule);
    });
  };
  for (bool more = true; std::exchange(more, false);) {
    for (const auto& [rule, ways] : needs_) {
      if (!have.contains(rule) && std::any_of(ways.begin(), ways.end(), written)) {
        more = have.insert(rule).second;
      }
    }
  }
  for (const auto& known : known_) {
    for (const auto& [where, rule] : known) {
      if (!have.contains(rule)) {
        refuse(where, "allows no value that ends: each would hold another of the same schema");
      }
    }
  }
}

bool SchemaConverter::is_full() const { return rules_.size() >= kMostRules; }

std::string SchemaConverter::define(const std::string& expression) {
  if (is_full()) throw SchemaRefusal{"has too many parts"};
  rules_.push_back(expression);
  return fmt::format("r{}", rules_.size() - 1);
}

std::string SchemaConverter::text(const std::string& root) const {
  return "root ::= " + root + "\n" + rules();
}

std::string SchemaConverter::rules() const {
  std::string out = kBasics;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    out += fmt::format("r{} ::= {}\n", i, rules_[i]);
  }
  return out;
}

void SchemaConverter::refuse(const std::string& where, const std::string& what) {
  throw SchemaRefusal{quote(where, 200) + " " + what};
}

// The rule of a part of the schema, by its place: a part may refer to itself.
std::string SchemaConverter::rule_of(const SchemaJson& schema, const std::string& where) {
  auto& known = known_[is_bare_ ? 1 : 0];
  if (const auto at = known.find(where); at != known.end()) {
    kinds_ |= kinds_of_[at->second];
    return at->second;
  }
  if (++depth_ > kMostDepth) refuse(where, "is nested or referred to too deep");
  const std::string name = define("");
  known[where] = name;
  Ways outer = std::exchange(ways_, {});
  const unsigned outer_kinds = std::exchange(kinds_, 0U);
  const std::string own = expression_or_any(schema, where);
  rules_[std::stoul(name.substr(1))] = own;
  needs_[name] = std::exchange(ways_, std::move(outer));
  kinds_of_[name] = kinds_;
  kinds_ |= outer_kinds;
  --depth_;
  return name;
}

std::string SchemaConverter::expression(const SchemaJson& s, const std::string& where) {
  if (s.is_boolean() && s.get<bool>()) return ways_.emplace_back(), any_value();
  if (!s.is_object()) refuse(where, "must be an object or true");
  // A schema of one of these has annotations beside it; "type" may stand beside values.
  if (s.contains("$ref")) return only(s, where, {"$ref"}), reference(s["$ref"], where);
  if (s.contains("const") || s.contains("enum")) return values(s, where);
  for (const char* word : {"anyOf", "oneOf", "allOf"}) {
    if (!strict_ && s.contains(word) && says_more(s, s[word])) break;
    if (s.contains(word)) return only(s, where, {word}), several(s[word], where, word);
  }
  return typed(s, where);
}

void SchemaConverter::only(const SchemaJson& s, const std::string& where,
                           const std::set<std::string>& words) const {
  if (!strict_) return;
  for (const auto& [word, value] : s.items()) {
    if (words.contains(word) || kAnnotations.contains(word) || word.starts_with("x-")) continue;
    if (word == "$id" && where == kRoot) continue;  // of a part it would move its references
    refuse(where, fmt::format("holds {}, which is not kept here: leave it out", quote(word, 60)));
  }
}

std::string SchemaConverter::reference(const SchemaJson& to, const std::string& where) {
  const std::string path = to.is_string() ? to.get<std::string>() : "";
  if (path != "#" && !path.starts_with("#/")) {
    refuse(where, "refers to something outside the schema: $ref must begin with #");
  }
  const SchemaJson* const at = target_of(to);
  if (at == nullptr) {
    refuse(where, fmt::format("refers to {}, which is not there", quote(path, 100)));
  }
  std::string rule = rule_of(*at, path);
  ways_.push_back({rule});
  return rule;
}

std::string SchemaConverter::values(const SchemaJson& s, const std::string& where) {
  only(s, where, {"const", "enum", "type"});
  if (s.contains("const") && s.contains("enum")) refuse(where, "holds both const and enum");
  const SchemaJson all = s.contains("const") ? SchemaJson::array({s["const"]}) : s["enum"];
  if (!all.is_array() || all.empty()) refuse(where, "has an enum that is no list of values");
  std::vector<std::string> out;
  std::set<std::string> types;
  for (const std::string& type : s.contains("type") ? type_names(s["type"]) : Names()) {
    types.insert(type);
    if (type == "number") types.insert("integer");
  }
  for (const SchemaJson& value : all) {
    if (s.contains("type") && !types.contains(schema_value_type(value))) continue;
    if (is_rounded(value)) refuse(where, "allows a number of more than 64 bits: make it a text");
    out.push_back(value_literal(value, where));
  }
  if (out.empty()) refuse(where, "allows no value");
  ways_.emplace_back();
  return fmt::format("{}", fmt::join(out, " | "));
}

std::string SchemaConverter::several(const SchemaJson& list, const std::string& where,
                                     const std::string& word) {
  if (!list.is_array() || list.empty()) refuse(where, word + " must be a list of schemas");
  if (word == "allOf" && list.size() > 1) {
    refuse(where, "holds an allOf of several schemas: write them as one");
  }
  if (word == "oneOf") different_types(list, where);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    out.push_back(rule_of(list[i], fmt::format("{}/{}/{}", where, word, i)));
    ways_.push_back({out.back()});
  }
  return fmt::format("{}", fmt::join(out, " | "));
}

// Then no value satisfies two of them.
void SchemaConverter::different_types(const SchemaJson& list, const std::string& where) const {
  if (!strict_) return;
  std::set<std::string> seen;
  for (const SchemaJson& s : list) {
    const SchemaJson type = s.is_object() && s.contains("type") ? s["type"] : SchemaJson();
    const std::string name = !type.is_string()                      ? ""
                             : type.get<std::string>() == "integer" ? "number"
                                                                    : type.get<std::string>();
    if (name.empty() || !seen.insert(name).second) {
      refuse(where, "holds a oneOf whose schemas are not of different types: use anyOf");
    }
  }
}

std::string SchemaConverter::typed(const SchemaJson& s, const std::string& where) {
  std::vector<std::string> types;
  if (!s.contains("type")) {
    const auto names = [&](const char* word) { return s.contains(word); };
    if (names("properties")) {
      types = {"object"};
    } else if (names("items") || names("prefixItems")) {
      types = {"array"};
    } else {
      ways_.emplace_back();
      return only(s, where, {}), any_value();
    }
  } else {
    types = type_names(s["type"]);
  }
  std::set<std::string> words = {"type"};
  std::vector<std::string> out;
  for (const std::string& type : types) {
    for (const auto& [of, its] :
         {std::pair("object", &kObjectWords), std::pair("array", &kArrayWords),
          std::pair("string", &kStringWords), std::pair("integer", &kNumberWords),
          std::pair("number", &kNumberWords)}) {
      if (type == of) words.insert(its->begin(), its->end());
    }
  }
  only(s, where, words);
  for (const std::string& type : types) out.push_back(of_type(type, s, where));
  if (out.empty()) refuse(where, "allows no type");
  return fmt::format("{}", fmt::join(out, " | "));
}

std::string SchemaConverter::of_type(const std::string& type, const SchemaJson& s,
                                     const std::string& where) {
  if (type == "array" || type == "object") {
    kinds_ |= kStructure;
    const NotBare inside(is_bare_);
    return type == "array" ? array_of(s, where) : object_of(s, where);
  }
  ways_.emplace_back();
  const bool python = is_bare_ && bare_->python;
  if (type == "boolean") return python ? R"(boolean | "True" | "False")" : type;
  if (type == "null") return python ? R"(null | "None")" : type;
  if (type == "string") return string_of(s, where);
  if (type == "integer" || type == "number") return number_of(type, s, where);
  refuse(where, "has a type that JSON Schema does not know");
}

}  // namespace forerun::internal
