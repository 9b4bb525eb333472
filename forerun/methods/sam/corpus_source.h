#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "forerun/methods/sam/corpus_index.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// What followed the ends of text and path in a corpus, such as the target's own answers: an n-gram
/// model whose order is as high as ends repeat. No network.
/// Source: SAM-Decoding, Hu et al. 2024, arXiv:2411.10666 (a static automaton beside the text's
/// own); REST, He et al. 2023, arXiv:2311.08252. Here all ends of a text count, not the longest
/// alone, and the index is a sorted array.
class CorpusSource final : public TreeSource {
 public:
  /// @param index  shared by all texts
  explicit CorpusSource(std::shared_ptr<const CorpusIndex> index) : index_(std::move(index)) {}

  HitRates rates() const override;
  bool begin(const TokenSequence& sequence) override;
  void add(std::size_t parent, Token token) override;
  void children(std::vector<TreeChild>& out) override;
  void forget(SequenceId) override {}
  bool knows_noise() const override { return true; }

 private:
  // The last tokens of the path to a node, the newest last.
  struct Node {
    std::array<Token, CorpusIndex::kLongest> context{};
    std::size_t known = 0;  // tokens of it
    std::size_t depth = 0;
    std::span<const Token> tokens() const { return std::span<const Token>(context).last(known); }
  };

  std::shared_ptr<const CorpusIndex> index_;
  const TokenSequence* sequence_ = nullptr;  // whose tree grows
  std::vector<Node> nodes_;
};

}  // namespace forerun
