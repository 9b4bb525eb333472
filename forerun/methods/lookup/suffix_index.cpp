#include "forerun/methods/lookup/suffix_index.h"

#include <utility>

namespace forerun {
namespace {

constexpr std::size_t kLength = 64;  // tokens that are compared

// Equal tokens before `i` and before the end, two of them known.
std::size_t matching(std::span<const Token> text, std::size_t i) {
  const std::size_t end = text.size() - 1;
  std::size_t n = 2;
  while (n < kLength && n <= i && text[i - n] == text[end - n]) ++n;
  return n;
}

}  // namespace

void SuffixIndex::extend(std::span<const Token> text) {
  for (std::size_t i = previous_.size(); i < text.size(); ++i) {
    previous_.push_back(-1);
    const auto known = last_token_.try_emplace(text[i], -1).first;
    previous_token_.push_back(std::exchange(known->second, static_cast<std::int32_t>(i)));
    if (i == 0) continue;
    const auto [entry, fresh] =
        last_.try_emplace(pair(text[i - 1], text[i]), static_cast<std::int32_t>(i));
    if (fresh) continue;
    previous_[i] = entry->second;
    entry->second = static_cast<std::int32_t>(i);
  }
}

SuffixIndex::Match SuffixIndex::longest(std::span<const Token> text) const {
  constexpr int kOccurrences = 256;
  Match best;
  if (text.size() < 3) return best;
  const std::size_t end = text.size() - 1;
  std::int32_t at = previous_[end];
  for (int tries = 0; at >= 0 && tries < kOccurrences; ++tries) {
    const auto i = static_cast<std::size_t>(at);
    const std::size_t n = matching(text, i);
    if (n > best.length) best = {i + 1, n};
    if (n == kLength) break;
    at = previous_[i];
  }
  return best;
}

std::vector<SuffixIndex::Match> SuffixIndex::all(std::span<const Token> text) const {
  constexpr std::size_t kPairs = 64, kTokens = 16;
  std::vector<Match> out;
  if (text.size() < 2) return out;
  const std::size_t end = text.size() - 1;
  for (std::int32_t at = previous_[end]; at >= 0 && out.size() < kPairs;) {
    const auto i = static_cast<std::size_t>(at);
    out.push_back({i + 1, matching(text, i)});
    at = previous_[i];
  }
  if (!out.empty()) return out;
  for (std::int32_t at = previous_token_[end]; at >= 0 && out.size() < kTokens;) {
    const auto i = static_cast<std::size_t>(at);
    out.push_back({i + 1, 1});
    at = previous_token_[i];
  }
  return out;
}

}  // namespace forerun
