#include "forerun/formats/grammar/internal/char_set.h"

#include <algorithm>
#include <cctype>

#include "forerun/base/utf8.h"

namespace forerun::internal {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF, kLast = 0x10FFFF;

}  // namespace

CharSet::CharSet(char32_t first, char32_t last) {
  if (first < kFirstSurrogate)
    ranges_.emplace_back(first, std::min<char32_t>(last, kFirstSurrogate - 1));
  if (last > kLastSurrogate)
    ranges_.emplace_back(std::max<char32_t>(first, kLastSurrogate + 1), last);
}

void CharSet::normalise() {
  std::sort(ranges_.begin(), ranges_.end());
  std::vector<std::pair<char32_t, char32_t>> out;
  for (const auto& range : ranges_) {
    if (!out.empty() && range.first <= out.back().second + 1) {
      out.back().second = std::max(out.back().second, range.second);
    } else {
      out.push_back(range);
    }
  }
  ranges_ = std::move(out);
}

void CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalise();
}

CharSet CharSet::others() const {
  CharSet out;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (next < first) out.add({next, first - 1});
    next = last + 1;
  }
  if (next <= kLast) out.add({next, kLast});
  return out;
}

CharSet CharSet::without(const CharSet& other) const {
  CharSet out = others();
  out.add(other);
  return out.others();
}

bool CharSet::has(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const auto& r) { return r.first <= c && c <= r.second; });
}

std::optional<std::u32string> characters_of(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    if (!c.valid) return std::nullopt;
    out.push_back(c.code);
    text.remove_prefix(c.size);
  }
  return out;
}

std::optional<char32_t> hex_character(std::u32string_view text, std::size_t from,
                                      std::size_t digits) {
  if (text.size() < from + digits) return std::nullopt;
  char32_t out = 0;
  for (const char32_t c : text.substr(from, digits)) {
    if (c >= 0x80 || std::isxdigit(static_cast<int>(c)) == 0) return std::nullopt;
    out = out * 16 + (c <= U'9' ? c - U'0' : (c | 0x20U) - U'a' + 10);
  }
  if (out > kLast || (out >= kFirstSurrogate && out <= kLastSurrogate)) return std::nullopt;
  return out;
}

std::size_t CharSet::states() const {
  // Of each range the bytes after the first one, for its ends and what is between them.
  std::size_t n = 1;
  for (const auto& [first, last] : ranges_) {
    const std::size_t bytes = last < 0x80 ? 1 : last < 0x800 ? 2 : last < 0x10000 ? 3 : 4;
    n += first == last ? bytes - 1 : 3 * (bytes - 1);
  }
  return n;
}

}  // namespace forerun::internal
