#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/grammar/internal/char_set.h"

namespace forerun::internal {

/// A regular expression, without what does not change the texts that it matches.
struct RegexTree {
  enum class Kind : std::uint8_t { kSet, kSequence, kEither, kRepeat };
  Kind kind = Kind::kSequence;
  CharSet set;                   // kSet: one character of it
  std::vector<RegexTree> parts;  // of the others; kRepeat has one
  std::size_t least = 0, most = SIZE_MAX;

  static RegexTree of(CharSet set) {
    return {.kind = Kind::kSet, .set = std::move(set), .parts = {}};
  }
  static RegexTree repeated(RegexTree part, std::size_t least, std::size_t most);
};

/// Where an expression is looked for.
enum class RegexUse : std::uint8_t {
  kWhole,     ///< it matches the whole text, as Python's re.fullmatch
  kAnywhere,  ///< or a part of it, but for ^ and $, as re.search and JSON Schema's pattern
};

/// Reads what the expressions of Python, JavaScript and RE2 have in common and mean alike. \d, \w
/// and \s are ASCII's; \S has no white space of Unicode's either, and . no line ends.
/// Errors: wrong syntax, and anything else: lookaround, back-references, flags, word boundaries,
/// anchors within; the message names it and its place.
Result<RegexTree> parse_regex(std::string_view expression, RegexUse use);

/// The texts that do not have a character.
/// Errors: a part asks for that one alone.
Result<RegexTree> without(const RegexTree& regex, char32_t character);

/// What an automaton of an expression takes, in numbers that stop at 2^32.
struct RegexSize {
  std::uint64_t states = 0;       ///< over bytes, with repetitions written out; sets of many
                                  ///< letters count more
  std::uint64_t transitions = 0;  ///< from character to character, beyond one from each
  std::uint64_t first = 0,
                last = 0;  ///< characters that may begin (large classes count ten) and end a match
  bool empty = true;       ///< the empty text matches

  /// Whether it compiles in a second or two; masks of tokens are then all made beforehand.
  /// @param other_states, other_transitions  of the same grammar's other expressions
  bool is_fair(std::uint64_t other_states = 0, std::uint64_t other_transitions = 0) const noexcept;
};
RegexSize size_of(const RegexTree& regex);

/// As a rule's body in xgrammar's EBNF, one automaton: without its repetitions and optional parts,
/// which are not exact, nor anything else that it may read in another way. To be written where
/// size_of is fair.
std::string ebnf_of(const RegexTree& regex);

/// The same texts as they stand in a JSON string, with the shortest escapes; control characters
/// without one are left out.
/// Errors: no text is left.
Result<RegexTree> in_json(const RegexTree& regex);

}  // namespace forerun::internal
