#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "forerun/formats/grammar/internal/regex_tree.h"

namespace forerun::internal {
namespace {

constexpr std::size_t kMostGroups = 64, kMostRepeatDigits = 4;
constexpr char32_t kNoChar = 0xFFFFFFFF;

// Thrown within this file.
struct RegexRefusal {
  std::string message;
};

CharSet ascii_digits() { return {U'0', U'9'}; }

CharSet ascii_word() {
  CharSet out = ascii_digits();
  out.add({U'A', U'Z'});
  out.add({U'a', U'z'});
  out.add({U'_', U'_'});
  return out;
}

CharSet ascii_space() {
  CharSet out(U'\t', U'\r');
  out.add({U' ', U' '});
  return out;
}

// What is white space to one or the other of the languages.
CharSet any_space() {
  CharSet out = ascii_space();
  for (const char32_t c : {0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF}) {
    out.add({c, c});
  }
  out.add({0x1C, 0x1F});
  out.add({0x2000, 0x200A});
  return out;
}

CharSet line_ends() {
  CharSet out(U'\n', U'\n');
  out.add({U'\r', U'\r'});
  out.add({0x2028, 0x2029});
  return out;
}

class Parser {
 public:
  Parser(std::u32string chars, RegexUse use) : chars_(std::move(chars)), use_(use) {}

  RegexTree whole() {
    RegexTree out = either(true, 0).regex;
    if (peek() == U')') refuse("has a ) without its (");
    return out;
  }

 private:
  // What was read, and whether it is held to the beginning or the end of the text.
  struct Read {
    RegexTree regex;
    bool begins = false, ends = false;
  };

  [[noreturn]] void refuse(const std::string& what) const { refuse_at(at_, what); }
  [[noreturn]] static void refuse_at(std::size_t at, const std::string& what) {
    throw RegexRefusal{fmt::format("{}, at character {}", what, at + 1)};
  }
  [[noreturn]] void refuse_kind(const std::string& what) const {
    refuse("has " + what + ", which is not supported");
  }
  char32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < chars_.size() ? chars_[at_ + ahead] : kNoChar;
  }
  char32_t next() {
    const char32_t c = peek();
    ++at_;
    return c;
  }
  bool take(char32_t c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  Read either(bool first, std::size_t depth);
  Read sequence(bool first, std::size_t depth);
  Read atom(bool first, std::size_t depth);
  Read group(bool first, std::size_t depth);
  void group_kind();
  std::optional<std::pair<std::size_t, std::size_t>> quantifier();
  std::optional<std::pair<std::size_t, std::size_t>> braces();
  std::optional<std::size_t> number();
  CharSet bracket();
  std::pair<CharSet, bool> unit(bool negated);
  std::pair<CharSet, bool> escape(bool in_class, bool negated);
  char32_t hex(std::size_t digits);

  std::u32string chars_;
  std::size_t at_ = 0;
  RegexUse use_;
};

// @param first  nothing of the expression comes before
Parser::Read Parser::either(bool first, std::size_t depth) {
  if (depth > kMostGroups) refuse("is nested too deep");
  Read out;
  out.regex.kind = RegexTree::Kind::kEither;
  do {
    Read one = sequence(first, depth);
    if (use_ == RegexUse::kAnywhere && depth == 0) {
      RegexTree& parts = one.regex;
      const RegexTree any = RegexTree::repeated(RegexTree::of(CharSet::all()), 0, SIZE_MAX);
      if (!one.begins) parts.parts.insert(parts.parts.begin(), any);
      if (!one.ends) parts.parts.push_back(any);
    }
    out.begins = out.begins || one.begins;
    out.ends = out.ends || one.ends;
    out.regex.parts.push_back(std::move(one.regex));
  } while (take(U'|'));
  if (depth > 0 && use_ == RegexUse::kAnywhere && (out.begins || out.ends)) {
    refuse("has ^ or $ in a group: put them outside");
  }
  return out;
}

Parser::Read Parser::sequence(bool first, std::size_t depth) {
  Read out;
  while (peek() != kNoChar && peek() != U'|' && peek() != U')') {
    if (out.ends && peek() != U'$') refuse("goes on after $");
    const std::size_t from = at_;
    if (take(U'^') || (peek() == U'\\' && peek(1) == U'A' && (at_ += 2) > 0)) {
      if (!first || !out.regex.parts.empty()) refuse_at(from, "has ^ after its beginning");
      out.begins = true;
    } else if (take(U'$') || (peek() == U'\\' && peek(1) == U'Z' && (at_ += 2) > 0)) {
      out.ends = true;
    } else {
      Read one = atom(first && out.regex.parts.empty(), depth);
      out.begins = out.begins || one.begins;
      out.ends = one.ends;
      out.regex.parts.push_back(std::move(one.regex));
      continue;
    }
    if (quantifier()) refuse_at(from, "repeats ^ or $");
  }
  return out;
}

Parser::Read Parser::atom(bool first, std::size_t depth) {
  const std::size_t from = at_;
  Read out;
  if (take(U'(')) {
    out = group(first, depth);
  } else if (take(U'[')) {
    out.regex = RegexTree::of(bracket());
  } else if (take(U'.')) {
    out.regex = RegexTree::of(line_ends().others());
  } else if (peek() == U'\\') {
    out.regex = RegexTree::of(escape(false, false).first);
  } else if (quantifier()) {
    refuse_at(from, "repeats nothing");
  } else {
    const char32_t c = next();
    out.regex = RegexTree::of({c, c});
  }
  const bool anchored = out.begins || out.ends;
  if (const auto times = quantifier()) {
    if (anchored) refuse_at(from, "repeats a group with ^ or $");
    if (take(U'+')) refuse_kind("a possessive repetition");
    take(U'?');  // the texts are the same
    out.regex = RegexTree::repeated(std::move(out.regex), times->first, times->second);
    if (quantifier()) refuse("has two repetitions of the same: put a group around the first");
  }
  return out;
}

Parser::Read Parser::group(bool first, std::size_t depth) {
  const std::size_t from = at_ - 1;
  if (take(U'?')) group_kind();
  Read out = either(first, depth + 1);
  if (!take(U')')) refuse_at(from, "has a ( without its )");
  return out;
}

void Parser::group_kind() {
  if (take(U':')) return;
  const bool python = peek() == U'P';
  if (python && (peek(1) == U'=' || peek(1) == U'>')) refuse_kind("a back-reference");
  if (peek() == U'=' || peek() == U'!') refuse_kind("a lookahead");
  if (peek() == U'<' && (peek(1) == U'=' || peek(1) == U'!')) refuse_kind("a lookbehind");
  if (peek() == U'>') refuse_kind("an atomic group");
  if (peek() == U'(') refuse_kind("a condition");
  if (peek() == U'#') refuse_kind("a comment");
  if (python) ++at_;
  if (!take(U'<')) refuse_kind("a flag");
  const std::size_t begin = at_;
  while (peek() < 0x80 && (std::isalnum(static_cast<int>(peek())) != 0 || peek() == U'_')) ++at_;
  if (begin == at_ || !take(U'>')) refuse("has a group with a wrong name");
}

std::optional<std::pair<std::size_t, std::size_t>> Parser::quantifier() {
  if (take(U'*')) return std::pair(std::size_t{0}, SIZE_MAX);
  if (take(U'+')) return std::pair(std::size_t{1}, SIZE_MAX);
  if (take(U'?')) return std::pair(std::size_t{0}, std::size_t{1});
  return peek() == U'{' ? braces() : std::nullopt;
}

// {n}, {n,} or {n,m}; other braces are characters.
std::optional<std::pair<std::size_t, std::size_t>> Parser::braces() {
  const std::size_t from = at_++;
  const std::optional<std::size_t> least = number();
  std::optional<std::size_t> most = least;
  const bool comma = take(U',');
  if (comma) most = number();
  if (!take(U'}') || (!least && !comma)) {
    at_ = from;
    return std::nullopt;
  }
  if (!least) refuse_at(from, "has a repetition without its least number: write {0,...}");
  if (most && *most < *least) refuse_at(from, "has a repetition from more to less");
  return std::pair(*least, most.value_or(SIZE_MAX));
}

std::optional<std::size_t> Parser::number() {
  std::size_t out = 0;
  const std::size_t from = at_;
  while (peek() >= U'0' && peek() <= U'9') {
    out = out * 10 + (next() - U'0');
    if (at_ - from > kMostRepeatDigits)
      refuse_at(from, "has a repetition of more than 9,999 times");
  }
  return at_ == from ? std::nullopt : std::optional(out);
}

CharSet Parser::bracket() {
  const std::size_t from = at_ - 1;
  const bool negated = take(U'^');
  // One language has an empty class here, the others a ] in it.
  if (peek() == U']') refuse("has a class that begins with ]: write \\]");
  CharSet out;
  while (!take(U']')) {
    if (peek() == kNoChar) refuse_at(from, "has a [ without its ]");
    if (peek() == U'[' && (peek(1) == U':' || peek(1) == U'.' || peek(1) == U'=')) {
      refuse_kind("a POSIX class");
    }
    const std::size_t begin = at_;
    const auto [first, single] = unit(negated);
    if (peek() != U'-' || peek(1) == U']' || peek(1) == kNoChar) {
      out.add(first);
      continue;
    }
    ++at_;
    const auto [last, last_single] = unit(negated);
    if (!single || !last_single) refuse_at(begin, "has a range between classes");
    const char32_t least = first.ranges().front().first, most = last.ranges().front().first;
    if (most < least) refuse_at(begin, "has a range from a later character to an earlier one");
    out.add({least, most});
  }
  if (negated) out = out.others();
  if (out.empty()) refuse_at(from, "has a class of no character");
  return out;
}

// Of a class: characters, and whether it is one.
std::pair<CharSet, bool> Parser::unit(bool negated) {
  if (peek() == U'\\') return escape(true, negated);
  if (peek() == kNoChar) refuse("has a [ without its ]");
  const char32_t c = next();
  return {{c, c}, true};
}

char32_t Parser::hex(std::size_t digits) {
  const auto c = hex_character(chars_, at_, digits);
  if (!c)
    refuse(fmt::format("has an escape that wants a character's {} hexadecimal digits", digits));
  at_ += digits;
  return *c;
}

// @param negated  of a class whose opposite is meant: the languages' widest classes are taken
std::pair<CharSet, bool> Parser::escape(bool in_class, bool negated) {
  const std::size_t from = at_++;
  const char32_t c = next();
  const auto one = [](char32_t code) { return std::pair(CharSet(code, code), true); };
  switch (c) {
    case U'd':
      return {ascii_digits(), false};
    case U'D':
      return {ascii_digits().others(), false};
    case U'w':
      return {ascii_word(), false};
    case U'W':
      return {ascii_word().others(), false};
    case U's':
      return {negated ? any_space() : ascii_space(), false};
    case U'S':
      return {(negated ? ascii_space() : any_space()).others(), false};
    case U'n':
      return one(U'\n');
    case U'r':
      return one(U'\r');
    case U't':
      return one(U'\t');
    case U'f':
      return one(U'\f');
    case U'v':
      return one(U'\v');
    case U'x':
      return one(hex(2));
    case U'u':
      return one(hex(4));
    case U'U':
      return one(hex(8));
    default:
      break;
  }
  if (c == U'b' && in_class) return one(U'\b');
  if (c == U'b' || c == U'B') refuse_at(from, "has a word boundary, which is not supported");
  if (c == U'0' && (peek() < U'0' || peek() > U'9')) return one(0);
  if (c == U'p' || c == U'P') refuse_at(from, "has a class of Unicode's, which is not supported");
  if (c == U'k' || (c >= U'1' && c <= U'9')) {
    refuse_at(from, "has a back-reference, which is not supported");
  }
  if (c == kNoChar) refuse_at(from, "ends in a backslash");
  if (c < 0x80 && std::isalnum(static_cast<int>(c)) != 0) {
    refuse_at(from,
              fmt::format("has an escape \\{}, which is not supported", static_cast<char>(c)));
  }
  return one(c);
}

}  // namespace

RegexTree RegexTree::repeated(RegexTree part, std::size_t least, std::size_t most) {
  RegexTree out{.kind = Kind::kRepeat, .set = {}, .parts = {}, .least = least, .most = most};
  out.parts.push_back(std::move(part));
  return out;
}

Result<RegexTree> parse_regex(std::string_view expression, RegexUse use) {
  try {
    std::optional<std::u32string> characters = characters_of(expression);
    if (!characters) return Error{"is no UTF-8"};
    return Parser(*std::move(characters), use).whole();
  } catch (const RegexRefusal& r) {
    return Error{r.message};
  }
}

}  // namespace forerun::internal
