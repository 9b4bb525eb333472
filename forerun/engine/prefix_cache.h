#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forerun/core/sequence_id.h"
#include "forerun/core/token.h"
#include "forerun/methods/text/text_drafter.h"
#include "forerun/tensor/kv_cache.h"

namespace forerun {

/// How many tokens both texts begin with.
std::size_t common_prefix(std::span<const Token> a, std::span<const Token> b) noexcept;

/// Keys and values of texts that ended, for texts that begin alike. The least recently used entry
/// goes first.
class PrefixCache {
 public:
  struct Entry {
    SequenceId id = 0;          ///< by which the drafter knows it
    std::vector<Token> tokens;  ///< one a position of the cache
    KvCache cache;
    std::shared_ptr<TextDrafter> drafter;  ///< null: none that knows the text
  };

  ~PrefixCache() { clear(); }
  /// Entries that are the beginning of this one, and known to the same drafter, are dropped.
  void add(Entry entry);
  /// The entry with the longest common beginning that its cache can share; null if none shares a
  /// token. Counts as a use.
  /// @param drafter  which has to know the entry; null: none has to
  const Entry* longest(std::span<const Token> tokens, const TextDrafter* drafter);
  /// The longest common beginning with any entry, whether it can be shared or not.
  std::size_t common(std::span<const Token> tokens) const noexcept;
  /// Drops the least recently used entry. False: there was none.
  bool evict();
  void clear() {
    while (evict()) {
    }
  }
  std::size_t size() const noexcept { return entries_.size(); }

 private:
  std::list<Entry> entries_;  // the most recently used first
};

}  // namespace forerun
