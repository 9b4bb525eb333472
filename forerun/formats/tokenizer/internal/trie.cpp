#include "forerun/formats/tokenizer/internal/trie.h"

namespace forerun::internal {

void Trie::insert(std::string_view key, Token id) {
  if (key.empty()) return;
  if (ids_.empty()) ids_.push_back(kNone);
  starts_[static_cast<unsigned char>(key.front())] = true;
  std::size_t node = 0;
  for (const char byte : key) {
    const auto [found, is_new] = next_.try_emplace(edge(node, byte), ids_.size());
    if (is_new) ids_.push_back(kNone);
    node = found->second;
  }
  ids_[node] = id;
}

std::optional<Trie::Match> Trie::longest_prefix(std::string_view text) const {
  if (text.empty() || !starts_[static_cast<unsigned char>(text.front())]) return std::nullopt;
  std::optional<Match> best;
  std::size_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto found = next_.find(edge(node, text[i]));
    if (found == next_.end()) break;
    node = found->second;
    if (ids_[node] != kNone) best = Match{ids_[node], i + 1};
  }
  return best;
}

}  // namespace forerun::internal
