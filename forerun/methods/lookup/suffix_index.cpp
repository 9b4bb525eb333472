#include "forerun/methods/lookup/suffix_index.h"

namespace forerun {

void SuffixIndex::extend(std::span<const Token> text) {
  for (std::size_t i = previous_.size(); i < text.size(); ++i) {
    previous_.push_back(-1);
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
  constexpr std::size_t kLength = 64;
  Match best;
  if (text.size() < 3) return best;
  const std::size_t end = text.size() - 1;
  std::int32_t at = previous_[end];
  for (int tries = 0; at >= 0 && tries < kOccurrences; ++tries) {
    const auto i = static_cast<std::size_t>(at);
    std::size_t n = 2;
    while (n < kLength && n <= i && text[i - n] == text[end - n]) ++n;
    if (n > best.length) best = {i + 1, n};
    if (n == kLength) break;
    at = previous_[i];
  }
  return best;
}

}  // namespace forerun
