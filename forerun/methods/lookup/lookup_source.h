#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/methods/lookup/suffix_index.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// What followed earlier occurrences of the text's end, in prompt and output: for every node the
/// tokens that followed where the text and the path to the node occurred. No model.
/// Source: prompt lookup decoding, Saxena 2023; several continuations: REST, He et al. 2023,
/// arXiv:2311.08252.
class LookupSource final : public TreeSource {
 public:
  HitRates rates() const override;
  bool begin(const TokenSequence& sequence) override;
  void add(std::size_t parent, Token token) override;
  void children(std::vector<TreeChild>& out) override;
  void forget(SequenceId id) override { indices_.erase(id); }

 private:
  struct Node {
    std::vector<SuffixIndex::Match> matches;  // `next`: of the token after the node
    std::vector<Token> path;                  // from the root
  };
  Token token_at(const Node& node, std::size_t index) const;

  std::unordered_map<SequenceId, SuffixIndex> indices_;
  std::span<const Token> text_;
  std::vector<Node> nodes_;  // of the tree that grows
};

}  // namespace forerun
