#include "forerun/formats/grammar/internal/regex_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "forerun/formats/grammar/internal/schema_converter.h"

namespace forerun::internal {
namespace {

constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 32;
// A second of compiling each, for 49,000 tokens.
constexpr std::uint64_t kMostStates = 4096, kMostTransitions = 4000;
constexpr std::uint64_t kMostOfAll = 8000;  // transitions of a grammar's expressions: two seconds
constexpr std::uint64_t kWide = 10, kManyLetters = 8;  // what a set of many letters counts

std::uint64_t counted(std::uint64_t n) { return std::min(n, kMostCounted); }

// From the ends of a part to the beginnings of the next, but for one.
std::uint64_t transitions(const RegexSize& from, const RegexSize& to) {
  return from.last == 0 ? 0 : counted(from.last - 1) * std::min(to.first, kMostTransitions);
}

std::uint64_t width_of(const CharSet& set) {
  std::uint64_t letters = 0;
  for (const auto& [first, last] : set.ranges()) letters += last - first + 1;
  return letters > kManyLetters ? kWide : 1;
}

// States that take as long to compile as one character of a set: tokens that go on from it have to
// be looked at, and most are words with or without a space before them.
std::uint64_t states_of(const CharSet& set) {
  constexpr std::uint64_t kLettersAState = 16, kLettersAStateWithSpace = 4;
  std::uint64_t letters = 0;
  for (char32_t c = U'A'; c <= U'Z'; ++c) {
    letters += (set.has(c) ? 1 : 0) + (set.has(c + (U'a' - U'A')) ? 1 : 0);
  }
  const std::uint64_t wide = letters / (set.has(U' ') ? kLettersAStateWithSpace : kLettersAState);
  return std::max<std::uint64_t>(set.states() + 1, 2 + wide);
}

RegexSize one_then(const RegexSize& a, const RegexSize& b) {
  return {.states = counted(a.states + b.states),
          .transitions = counted(a.transitions + b.transitions + transitions(a, b)),
          .first = counted(a.first + (a.empty ? b.first : 0)),
          .last = counted(b.last + (b.empty ? a.last : 0)),
          .empty = a.empty && b.empty};
}

RegexSize one_or(const RegexSize& a, const RegexSize& b) {
  return {.states = counted(a.states + b.states),
          .transitions = counted(a.transitions + b.transitions),
          .first = counted(a.first + b.first),
          .last = counted(a.last + b.last),
          .empty = a.empty || b.empty};
}

RegexSize optional(RegexSize size) {
  size.empty = true;
  return size;
}

RegexSize size_of_repeat(const RegexTree& regex) {
  const RegexSize part = size_of(regex.parts.front());
  RegexSize out, tail;
  for (std::size_t i = 0; i < regex.least; ++i) out = one_then(out, part);
  if (regex.most == SIZE_MAX) {
    tail = optional(part);
    tail.transitions = counted(tail.transitions + transitions(part, part));
  } else {
    for (std::size_t i = regex.least; i < regex.most; ++i) tail = optional(one_then(part, tail));
  }
  return one_then(out, tail);
}

std::string pattern_of_set(const CharSet& set) {
  std::string out = "[";
  for (const auto& [first, last] : set.ranges()) {
    out += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(first));
    if (last != first) out += fmt::format("-\\u{{{:x}}}", static_cast<std::uint32_t>(last));
  }
  return out + "]";
}

std::string pattern_of_tree(const RegexTree& regex);

std::string pattern_of_repeat(const RegexTree& regex) {
  const std::string part = "(?:" + pattern_of_tree(regex.parts.front()) + ")";
  std::string out;
  for (std::size_t i = 0; i < regex.least; ++i) out += part;
  if (regex.most == SIZE_MAX) return out + part + "*";
  for (std::size_t i = regex.least; i < regex.most; ++i) out += "(?:" + part;
  for (std::size_t i = regex.least; i < regex.most; ++i) out += "|)";
  return out;
}

std::string pattern_of_tree(const RegexTree& regex) {
  if (regex.kind == RegexTree::Kind::kSet) return pattern_of_set(regex.set);
  if (regex.kind == RegexTree::Kind::kRepeat) return pattern_of_repeat(regex);
  std::string out;
  const bool either = regex.kind == RegexTree::Kind::kEither;
  for (const RegexTree& part : regex.parts) {
    if (either && &part != regex.parts.data()) out += '|';
    out += pattern_of_tree(part);
  }
  return either ? "(?:" + out + ")" : out;
}

const std::map<char32_t, const char*>& json_escapes() {
  static const std::map<char32_t, const char*> all = {
      {U'"', "\\\""}, {U'\\', "\\\\"}, {U'\n', "\\n"}, {U'\r', "\\r"},
      {U'\t', "\\t"}, {U'\b', "\\b"},  {U'\f', "\\f"}};
  return all;
}

RegexTree literal(const char* text) {
  RegexTree out;
  for (; *text != '\0'; ++text) {
    const auto c = static_cast<unsigned char>(*text);
    out.parts.push_back(RegexTree::of({c, c}));
  }
  return out;
}

// One character of a set in a JSON string. An expression of no alternative: there is none.
RegexTree json_set(const CharSet& set) {
  CharSet special(0, 0x1F);
  for (const auto& [c, escape] : json_escapes()) special.add({c, c});
  RegexTree out{.kind = RegexTree::Kind::kEither, .set = {}, .parts = {}};
  if (CharSet plain = set.without(special); !plain.empty()) {
    out.parts.push_back(RegexTree::of(std::move(plain)));
  }
  for (const auto& [c, escape] : json_escapes()) {
    if (set.has(c)) out.parts.push_back(literal(escape));
  }
  return out;
}

}  // namespace

bool RegexSize::is_fair(std::uint64_t other_states,
                        std::uint64_t other_transitions) const noexcept {
  return states + other_states <= kMostStates && transitions <= kMostTransitions &&
         transitions + other_transitions <= kMostOfAll;
}

RegexSize size_of(const RegexTree& regex) {
  RegexSize out;
  if (regex.kind == RegexTree::Kind::kSet) {
    return {.states = states_of(regex.set),
            .transitions = 0,
            .first = width_of(regex.set),
            .last = 1,
            .empty = false};
  }
  if (regex.kind == RegexTree::Kind::kRepeat) return size_of_repeat(regex);
  const bool either = regex.kind == RegexTree::Kind::kEither;
  for (const RegexTree& part : regex.parts) {
    const bool first = &part == regex.parts.data();
    const RegexSize size = size_of(part);
    out = first ? size : either ? one_or(out, size) : one_then(out, size);
  }
  out.states = counted(out.states + 1);  // groups of nothing can be repeated too
  return out;
}

std::string ebnf_of(const RegexTree& regex) {
  return fmt::format("Regex({})", ebnf_text(pattern_of_tree(regex)));
}

Result<RegexTree> in_json(const RegexTree& regex) {
  if (regex.kind == RegexTree::Kind::kSet) {
    RegexTree out = json_set(regex.set);
    if (out.parts.empty()) return Error{"has control characters that are left out of JSON here"};
    return out;
  }
  RegexTree out{
      .kind = regex.kind, .set = {}, .parts = {}, .least = regex.least, .most = regex.most};
  for (const RegexTree& part : regex.parts) {
    Result<RegexTree> converted = in_json(part);
    if (!converted) return converted;
    out.parts.push_back(*std::move(converted));
  }
  return out;
}

Result<RegexTree> without(const RegexTree& regex, char32_t character) {
  RegexTree out = regex;
  if (regex.kind == RegexTree::Kind::kSet) {
    out.set = regex.set.without({character, character});
    if (out.set.empty()) {
      return Error{fmt::format("asks for the character U+{:04X}, which the model does not write",
                               static_cast<std::uint32_t>(character))};
    }
  }
  for (RegexTree& part : out.parts) {
    Result<RegexTree> converted = without(part, character);
    if (!converted) return converted;
    part = *std::move(converted);
  }
  return out;
}

}  // namespace forerun::internal
