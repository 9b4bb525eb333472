// Strings that match a regular expression.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "forerun/formats/grammar/internal/regex_tree.h"
#include "forerun/formats/grammar/internal/schema_converter.h"

namespace forerun::internal {
namespace {

// How many characters a match has. SIZE_MAX: as many as may be.
struct Lengths {
  std::size_t least = 0, most = 0;
};

std::size_t times(std::size_t a, std::size_t b) {
  return a != 0 && b > SIZE_MAX / a ? SIZE_MAX : a * b;
}

Lengths lengths_of(const RegexTree& regex) {
  if (regex.kind == RegexTree::Kind::kSet) return {1, 1};
  Lengths out;
  for (const RegexTree& part : regex.parts) {
    const Lengths one = lengths_of(part);
    if (regex.kind == RegexTree::Kind::kEither) {
      const bool first = &part == regex.parts.data();
      out = {first ? one.least : std::min(out.least, one.least), std::max(out.most, one.most)};
    } else {
      out = {out.least > SIZE_MAX - one.least ? SIZE_MAX : out.least + one.least,
             out.most > SIZE_MAX - one.most ? SIZE_MAX : out.most + one.most};
    }
  }
  if (regex.kind != RegexTree::Kind::kRepeat) return out;
  return {times(out.least, regex.least), times(out.most, regex.most)};
}

// The part of groups of one part.
RegexTree& inner(RegexTree& regex) {
  const bool group =
      regex.kind == RegexTree::Kind::kEither || regex.kind == RegexTree::Kind::kSequence;
  return group && regex.parts.size() == 1 ? inner(regex.parts.front()) : regex;
}

// Holds matches to lengths. False: it takes more than an expression.
bool hold_to(RegexTree& regex, const Lengths& wanted) {
  const Lengths has = lengths_of(regex);
  if (wanted.least <= has.least && has.most <= wanted.most) return true;
  RegexTree& only = inner(regex);
  if (only.kind != RegexTree::Kind::kRepeat ||
      inner(only.parts.front()).kind != RegexTree::Kind::kSet) {
    return false;
  }
  const std::size_t least = std::max(only.least, wanted.least);
  const std::size_t most = std::min(only.most, wanted.most);
  if (least > most) return false;
  only.least = least;
  only.most = most;
  return true;
}

}  // namespace

// The rule of strings that hold a match; empty: of a schema that need not be strict, none is kept.
std::optional<std::string> SchemaConverter::pattern_of(const SchemaJson& s,
                                                       const std::string& where) {
  const auto wrong = [&](const std::string& what) -> std::optional<std::string> {
    if (strict_) refuse(where, "has a pattern that " + what);
    return std::nullopt;
  };
  if (!s["pattern"].is_string()) return wrong("is no string");
  if (strict_ && s.contains("format")) refuse(where, "has both a pattern and a format");
  const Result<RegexTree> read = parse_regex(s["pattern"].get<std::string>(), RegexUse::kAnywhere);
  if (!read) return wrong(read.error().message);
  RegexTree plain = *read;
  const std::int64_t least = count_of(s, "minLength", 0, where);
  const std::int64_t most = count_of(s, "maxLength", -1, where);
  if (!hold_to(plain, {static_cast<std::size_t>(least), static_cast<std::size_t>(most)}) &&
      strict_) {
    refuse(where, "has a pattern and lengths that are not kept together: write one pattern");
  }
  const Result<RegexTree> written = is_bare_ ? without(plain, U'<') : in_json(plain);
  if (!written) return wrong(written.error().message);
  RegexTree whole;
  whole.parts = {*written};
  if (!is_bare_) {
    whole.parts = {RegexTree::of({U'"', U'"'}), *written, RegexTree::of({U'"', U'"'})};
  }
  const RegexSize size = size_of(whole);
  if (!size.is_fair(pattern_states_, pattern_transitions_)) {
    return wrong("is too large, with the schema's others: bound its repetitions by less");
  }
  pattern_states_ += size.states;
  pattern_transitions_ += size.transitions;
  return define(ebnf_of(whole));
}

}  // namespace forerun::internal
