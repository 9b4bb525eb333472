#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/methods/sam/suffix_automaton.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// What followed earlier occurrences of the text's end: of the longest that occurred before, then
/// of shorter ones, with how often it did. As `lookup`, but a suffix automaton finds matches of any
/// length and counts all their occurrences in constant time. No model.
/// Source: SAM-Decoding, Hu et al. 2024, arXiv:2411.10666.
class SamSource final : public TreeSource {
 public:
  HitRates rates() const override;
  bool begin(const TokenSequence& sequence) override;
  void add(std::size_t parent, Token token) override;
  void children(std::vector<TreeChild>& out) override;
  void forget(SequenceId id) override { texts_.erase(id); }

 private:
  std::unordered_map<SequenceId, SuffixAutomaton> texts_;
  const SuffixAutomaton* automaton_ = nullptr;
  std::vector<SuffixAutomaton::Match> nodes_;  // of the tree that grows
};

}  // namespace forerun
