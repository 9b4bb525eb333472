#include "forerun/methods/lookahead/ngram_pool.h"

#include <algorithm>

namespace forerun {

void NgramPool::add(Token key, std::span<const Token> next) {
  const auto [entry, fresh] = grams_.try_emplace(key);
  std::vector<std::vector<Token>>& grams = entry->second;
  const auto same = std::find_if(grams.begin(), grams.end(), [&](const std::vector<Token>& gram) {
    return std::equal(gram.begin(), gram.end(), next.begin(), next.end());
  });
  if (same != grams.end()) {
    std::rotate(same, same + 1, grams.end());
    return;
  }
  grams.emplace_back(next.begin(), next.end());
  if (grams.size() > per_key_) grams.erase(grams.begin());
  if (!fresh) return;
  order_.push_back(key);
  if (order_.size() <= most_keys_) return;
  grams_.erase(order_.front());
  order_.pop_front();
}

std::span<const std::vector<Token>> NgramPool::after(Token key) const {
  const auto found = grams_.find(key);
  if (found == grams_.end()) return {};
  return found->second;
}

}  // namespace forerun
