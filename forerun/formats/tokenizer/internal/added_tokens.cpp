#include "forerun/formats/tokenizer/internal/added_tokens.h"

#include <algorithm>

#include "forerun/base/utf8.h"
#include "forerun/formats/tokenizer/internal/regex_syntax.h"

namespace forerun::internal {
namespace {

// What Rust's regex crate takes for \w. Source: Unicode Technical Standard 18, annex C.
constexpr std::string_view kWordPattern =
    R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}])"
    R"(|[\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}])";

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// The last character of well-formed text; empty text gives empty.
std::string_view last_char(std::string_view text) {
  std::size_t n = std::min<std::size_t>(1, text.size());
  while (n < text.size() && (static_cast<unsigned char>(text[text.size() - n]) & 0xC0) == 0x80) ++n;
  return text.substr(text.size() - n);
}

std::size_t spaces_before(std::string_view text) {
  std::size_t out = 0;
  for (std::string_view c = last_char(text); !c.empty() && is_white_space(first_char(c).code);
       c = last_char(text)) {
    out += c.size();
    text.remove_suffix(c.size());
  }
  return out;
}

std::size_t spaces_after(std::string_view text) {
  std::size_t out = 0;
  while (out < text.size()) {
    const Utf8Char c = first_char(text.substr(out));
    if (!is_white_space(c.code)) break;
    out += c.size;
  }
  return out;
}

}  // namespace

Result<AddedTokens> AddedTokens::make(const std::vector<Entry>& entries) {
  AddedTokens out;
  for (const Entry& e : entries) {
    out.trie_.insert(e.text, static_cast<Token>(out.tokens_.size()));
    out.tokens_.push_back(e.token);
    out.has_special_ = out.has_special_ || e.token.special;
  }
  if (std::any_of(entries.begin(), entries.end(),
                  [](const Entry& e) { return e.token.single_word; })) {
    Result<Regex> word = Regex::compile(kWordPattern);
    if (!word) return word.error();
    out.word_.push_back(*std::move(word));
  }
  return out;
}

bool AddedTokens::touches_word(std::string_view text, Range match) const {
  const auto is_word = [&](std::string_view c) {
    return !c.empty() && !word_.front().matches(c).empty();
  };
  const std::string_view after = text.substr(match.end);
  return is_word(last_char(text.substr(0, match.begin))) ||
         (!after.empty() && is_word(after.substr(0, first_char(after).size)));
}

std::vector<Token> AddedTokens::special(std::string_view text) const {
  std::vector<Token> out;
  for (const Fragment& f : split(text, false)) {
    const auto is_special = [&](const AddedToken& t) { return t.id == f.token && t.special; };
    if (f.token && std::any_of(tokens_.begin(), tokens_.end(), is_special)) out.push_back(*f.token);
  }
  return out;
}

// The token that begins at a place, by its index; without one the range ends where to go on.
Fragment AddedTokens::find(std::string_view text, std::size_t at, bool skip_special,
                           std::span<const TextRange>& plain) const {
  while (!plain.empty() && plain.front().end <= at) plain = plain.subspan(1);
  const TextRange next = plain.empty() ? TextRange{text.size(), text.size()} : plain.front();
  auto found = trie_.longest_prefix(text.substr(at));
  const auto special = [&] { return tokens_[static_cast<std::size_t>(found->id)].special; };
  if (found && special() && at < next.begin && at + found->size > next.begin) {
    found = trie_.longest_prefix(text.substr(at, next.begin - at));
  }
  if (!found) return {std::nullopt, {at, at + 1}};
  const std::size_t end = at + found->size;
  if (!special()) return {found->id, {at, end}};
  if (skip_special) return {std::nullopt, {at, end}};
  if (at < next.begin) return {found->id, {at, end}};
  // Behind a plain part, a token of the text's own may begin within what is none.
  return {std::nullopt, {at, end <= next.end ? end : at + 1}};
}

std::vector<Fragment> AddedTokens::split(std::string_view text, bool skip_special,
                                         std::span<const TextRange> plain) const {
  std::vector<Fragment> out;
  std::size_t done = 0;
  const auto add_text = [&](std::size_t end) {
    if (end > done) out.push_back({std::nullopt, {done, end}});
  };
  for (std::size_t at = 0; at < text.size() && !trie_.empty();) {
    const auto found = find(text, at, skip_special, plain);
    if (!found.token) {
      at = found.range.end;
      continue;
    }
    Range match = found.range;
    at = match.end;
    const AddedToken& token = tokens_[static_cast<std::size_t>(*found.token)];
    if (token.single_word && touches_word(text, match)) continue;
    if (token.lstrip)
      match.begin = std::max(match.begin - spaces_before(text.substr(0, match.begin)), done);
    if (token.rstrip) match.end += spaces_after(text.substr(match.end));
    add_text(match.begin);
    out.push_back({token.id, match});
    done = match.end;
  }
  add_text(text.size());
  return out;
}

}  // namespace forerun::internal
