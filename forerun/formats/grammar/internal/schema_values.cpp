// Rules for values of one type.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "forerun/base/quote.h"
#include "forerun/formats/grammar/internal/schema_converter.h"
#include "forerun/formats/grammar/number_grammar.h"

namespace forerun::internal {
namespace {

constexpr std::int64_t kMostRepeats = 10'000;
constexpr std::int64_t kMostCharacters = 20'000;  // compiling takes time by their square
constexpr double kMostBound = 1e15;               // integers that a double holds
constexpr double kMostDecimalBound = 1e6;         // with nine digits after the point

}  // namespace

std::int64_t SchemaConverter::count_of(const SchemaJson& s, const char* word,
                                       std::int64_t otherwise, const std::string& where) const {
  if (!s.contains(word)) return otherwise;
  const SchemaJson& value = s[word];
  const bool large = value.is_number() && value.get<double>() > double{kMostRepeats};
  if (!strict_ && large)
    return std::string_view(word).starts_with("min") ? kMostRepeats : otherwise;
  if (!value.is_number_integer() || value.get<double>() < 0.0 ||
      value.get<double>() > double{kMostRepeats}) {
    refuse(where, fmt::format("has a {} that is no count of at most {}", word, kMostRepeats));
  }
  return value.get<std::int64_t>();
}

std::string SchemaConverter::string_of(const SchemaJson& s, const std::string& where) {
  const std::string any = is_bare_ ? any_value() : "string";
  const char* const quote = is_bare_ ? R"("")" : R"("\"")";
  if (s.contains("pattern")) {
    if (std::optional<std::string> rule = pattern_of(s, where)) return *std::move(rule);
  }
  const std::int64_t least = count_of(s, "minLength", 0, where);
  const std::int64_t most = count_of(s, "maxLength", -1, where);
  if (most >= 0 && most < least) refuse(where, "has a maxLength below its minLength");
  if (s.contains("format")) {
    static const std::map<std::string, std::string> kFormats = {
        {"date", "date"},
        {"time", "time"},
        {"date-time", "date \"T\" time"},
        {"uuid", "uuid"},
        {"ipv4", "byte \".\" byte \".\" byte \".\" byte"}};
    const auto at =
        s["format"].is_string() ? kFormats.find(s["format"].get<std::string>()) : kFormats.end();
    if (at == kFormats.end() && strict_) {
      refuse(where, "has a format that is not kept: date, time, date-time, uuid and ipv4 are");
    }
    if (at != kFormats.end()) {
      if (strict_ && (s.contains("minLength") || s.contains("maxLength"))) {
        refuse(where, "has both a format and a length");
      }
      return fmt::format("{0} {1} {0}", quote, at->second);
    }
  }
  if (least == 0 && most < 0) return any;
  characters_ += std::max(least, most);
  if (characters_ > kMostCharacters) {
    if (!strict_) return any;
    refuse(where, fmt::format("bounds strings of more than {} characters in all", kMostCharacters));
  }
  const std::string to = most < 0 ? "" : std::to_string(most);
  if (is_bare_ && most < 0) return fmt::format("bare{{{}}} {}", least, any);
  const char* const character = is_bare_ ? "bare" : "character";
  return most == 0 ? fmt::format("{0} {0}", quote)
                   : fmt::format("{0} {1}{{{2},{3}}} {0}", quote, character, least, to);
}

std::string SchemaConverter::number_of(const std::string& type, const SchemaJson& s,
                                       const std::string& where) {
  if (!s.contains("minimum") && !s.contains("maximum") && !s.contains("exclusiveMinimum") &&
      !s.contains("exclusiveMaximum")) {
    return type;
  }
  const bool whole = type == "integer";
  const auto bound = [&](const char* word) -> std::optional<double> {
    if (!s.contains(word)) return std::nullopt;
    const double x = s[word].is_number() ? s[word].get<double>() : NAN;
    if (!strict_ && !whole && std::abs(x) <= kMostDecimalBound && x != std::floor(x)) {
      return std::string_view(word).ends_with("inimum") ? std::floor(x) : std::ceil(x);
    }
    if (!strict_ && !(std::abs(x) <= (whole ? kMostBound : kMostDecimalBound))) return std::nullopt;
    if (!(std::abs(x) <= (whole ? kMostBound : kMostDecimalBound)) ||
        (!whole && x != std::floor(x))) {
      refuse(where, fmt::format("has a {} that is not kept: of an integer up to 1e15, of a number "
                                "an integer up to 1e6 is",
                                word));
    }
    return x;
  };
  const auto least = bound("minimum"), above = bound("exclusiveMinimum");
  const auto most = bound("maximum"), below = bound("exclusiveMaximum");
  const auto integer = [](double x) { return static_cast<std::int64_t>(x); };
  std::string out;
  if (whole) {
    std::optional<std::int64_t> from, to;
    if (least) from = integer(std::ceil(*least));
    if (above) from = std::max(from.value_or(INT64_MIN), integer(std::floor(*above)) + 1);
    if (most) to = integer(std::floor(*most));
    if (below) to = std::min(to.value_or(INT64_MAX), integer(std::ceil(*below)) - 1);
    if (!from || !to || *from <= *to) out = integer_expression(from, to);
  } else {
    NumberBounds b;
    b.above_least = above && (!least || *above >= *least);
    if (least || above) b.least = integer(b.above_least ? *above : *least);
    b.below_most = below && (!most || *below <= *most);
    if (most || below) b.most = integer(b.below_most ? *below : *most);
    if (!b.least || !b.most || *b.least <= *b.most) out = number_expression(b);
  }
  if (out.empty()) refuse(where, "has bounds between which there is no number");
  return out;
}

std::string SchemaConverter::array_of(const SchemaJson& s, const std::string& where) {
  std::int64_t least = count_of(s, "minItems", 0, where);
  std::int64_t most = count_of(s, "maxItems", -1, where);
  if (most >= 0 && most < least) refuse(where, "has a maxItems below its minItems");
  std::vector<std::string> first;
  if (s.contains("prefixItems")) {
    if (!s["prefixItems"].is_array()) refuse(where, "has prefixItems that are no list");
    for (std::size_t i = 0; i < s["prefixItems"].size(); ++i) {
      first.push_back(rule_of(s["prefixItems"][i], fmt::format("{}/prefixItems/{}", where, i)));
    }
  }
  const auto given = static_cast<std::int64_t>(first.size());
  const bool closed = s.contains("items") ? s["items"] == false : !first.empty();
  if (closed && most < 0) most = given;
  if (closed && least > given) refuse(where, "has a minItems above the number of its prefixItems");
  const std::string item = closed                ? ""
                           : s.contains("items") ? rule_of(s["items"], where + "/items")
                                                 : "any";
  std::vector<std::string> needed(first.begin(), first.begin() + std::min(least, given));
  if (least > given) needed.push_back(item);
  ways_.push_back(std::move(needed));
  if (given == 0) {
    if (closed || most == 0) return R"("[" ws "]")";
    const std::string to = most < 0 ? "" : std::to_string(most - 1);
    const std::string some = fmt::format(R"({} ("," ws {}){{{},{}}} ws)", item, item,
                                         std::max<std::int64_t>(0, least - 1), to);
    return least > 0 ? fmt::format(R"("[" ws {} "]")", some)
                     : fmt::format(R"("[" ws ({})? "]")", some);
  }
  // Those after the first ones that must be there, from the last on.
  std::string rest;
  const std::int64_t further = closed ? 0 : most < 0 ? -1 : std::max<std::int64_t>(0, most - given);
  if (further != 0) {
    rest = fmt::format(R"( ("," ws {}){{{},{}}})", item, std::max<std::int64_t>(0, least - given),
                       further < 0 ? "" : std::to_string(further));
  }
  const std::int64_t used = most < 0 ? given : std::min(given, most);
  for (std::int64_t i = used; i-- > 0;) {
    const std::string own = first[static_cast<std::size_t>(i)] + rest;
    const std::string after = i > 0 ? R"("," ws )" + own : own + " ws";
    rest = i < least ? " " + after : fmt::format(" ({})?", after);
  }
  return fmt::format(R"("[" ws{} "]")", rest);
}

SchemaConverter::ObjectWords SchemaConverter::object_words(const SchemaJson& s,
                                                           const std::string& where) const {
  ObjectWords out{
      .properties = s.contains("properties") ? s["properties"] : SchemaJson::object(),
      .further = s.contains("additionalProperties") ? s["additionalProperties"] : SchemaJson(true),
      .required = {}};
  if (!out.properties.is_object()) refuse(where, "has properties that are no object");
  if (!s.contains("required")) return out;
  if (!s["required"].is_array()) refuse(where, "has a required that is no list");
  for (const SchemaJson& name : s["required"]) {
    if (!name.is_string()) refuse(where, "has a required that holds more than names");
    out.required.insert(name.get<std::string>());
  }
  return out;
}

std::string SchemaConverter::object_of(const SchemaJson& s, const std::string& where) {
  if (!strict_ && has_other_properties(s)) return ways_.emplace_back(), "object";
  const auto [properties, further, required] = object_words(s, where);
  std::vector<std::string> needed_rules;
  if (properties.empty() && required.empty()) {
    ways_.emplace_back();
    if (further == false) return R"("{" ws "}")";
    if (further == true) return "object";
    const std::string pair =
        define("string \":\" ws " + rule_of(further, where + "/additionalProperties"));
    return fmt::format(R"("{{" ws ({} ("," ws {})* ws)? "}}")", pair, pair);
  }
  struct Property {
    std::string pair;
    bool required;
  };
  std::vector<Property> all;
  const auto add = [&](const std::string& name, const std::string& rule, bool needed) {
    if (needed) needed_rules.push_back(rule);
    all.push_back({define(fmt::format(R"({} ":" ws {})", ebnf_literal(name), rule)), needed});
  };
  for (const auto& [name, schema] : properties.items()) {
    if (schema == false && !required.contains(name)) continue;
    add(name, rule_of(schema, where + "/properties/" + pointer_part(name)),
        required.contains(name));
  }
  for (const std::string& name : required) {
    if (properties.contains(name)) continue;
    if (further == false) {
      refuse(where, fmt::format("requires {}, which it does not allow", quote(name, 60)));
    }
    add(name, rule_of(further, where + "/additionalProperties"), true);
  }
  ways_.push_back(std::move(needed_rules));
  // after: what follows once a pair is there; first: what begins with this property or a later.
  std::string after = define("\"\""), first = after;
  for (std::size_t i = all.size(); i-- > 0;) {
    const auto& [pair, needed] = all[i];
    const std::string with = fmt::format("{} {}", pair, after);
    first = define(needed ? with : fmt::format("{} | {}", with, first));
    after = define(needed ? fmt::format(R"("," ws {})", with)
                          : fmt::format(R"(("," ws {})? {})", pair, after));
  }
  return fmt::format(R"("{{" ws {} ws "}}")", first);
}

std::string SchemaConverter::pointer_part(const std::string& name) {
  const std::string whole = (SchemaJson::json_pointer() / name).to_string();
  return whole.substr(1);
}

}  // namespace forerun::internal
