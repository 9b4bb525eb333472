#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// N-grams by their first token, the key: of each key the last few that were seen, each once. Of
/// bounded size: the key that came first goes first.
/// Source: Fu et al. 2024, arXiv:2402.02057, section 3.3.
class NgramPool {
 public:
  /// @param per_key  n-grams of a key
  explicit NgramPool(std::size_t per_key = 7, std::size_t keys = std::size_t{1} << 15)
      : per_key_(per_key), most_keys_(keys) {}

  /// Makes key + `next` the newest of its key.
  void add(Token key, std::span<const Token> next);
  /// What followed the key, the newest last. Valid until the next `add`.
  std::span<const std::vector<Token>> after(Token key) const;
  std::size_t keys() const noexcept { return grams_.size(); }

 private:
  std::size_t per_key_, most_keys_;
  std::unordered_map<Token, std::vector<std::vector<Token>>> grams_;
  std::deque<Token> order_;  // of the keys
};

}  // namespace forerun
