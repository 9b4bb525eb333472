#include "forerun/engine/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace forerun {

std::size_t common_prefix(std::span<const Token> a, std::span<const Token> b) noexcept {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(end.first - a.begin());
}

void PrefixCache::add(Entry entry) {
  std::erase_if(entries_, [&](const Entry& old) {
    if (old.drafter != entry.drafter || old.tokens.size() > entry.tokens.size() ||
        common_prefix(old.tokens, entry.tokens) < old.tokens.size()) {
      return false;
    }
    if (old.drafter) old.drafter->forget(old.id);
    return true;
  });
  entries_.push_front(std::move(entry));
}

const PrefixCache::Entry* PrefixCache::longest(std::span<const Token> tokens,
                                               const TextDrafter* drafter) {
  auto best = entries_.end();
  std::size_t most = 0;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (drafter != nullptr && entry->drafter.get() != drafter) continue;
    const auto n = static_cast<std::size_t>(
        entry->cache.sharable(static_cast<std::int64_t>(common_prefix(entry->tokens, tokens))));
    if (n <= most) continue;
    most = n;
    best = entry;
  }
  if (best == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, best);
  return &entries_.front();
}

std::size_t PrefixCache::common(std::span<const Token> tokens) const noexcept {
  std::size_t most = 0;
  for (const Entry& entry : entries_) most = std::max(most, common_prefix(entry.tokens, tokens));
  return most;
}

bool PrefixCache::evict() {
  if (entries_.empty()) return false;
  const Entry& last = entries_.back();
  if (last.drafter) last.drafter->forget(last.id);
  entries_.pop_back();
  return true;
}

}  // namespace forerun
