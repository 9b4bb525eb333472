#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/rule.h"
#include "forerun/core/sequence.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/lookup/suffix_index.h"
#include "forerun/methods/text/deterministic_drafts.h"

namespace forerun {

/// Drafts the continuation of the longest earlier occurrence of the text's end, in prompt and
/// output. No model, no law: its drafts are point masses.
/// Source: prompt lookup decoding, Saxena 2023; LLMA, Yang et al. 2023, arXiv:2304.04487.
class LookupDrafter {
 public:
  /// @param lowest  confidence_bin of the shortest matches; another drafter uses those below
  explicit LookupDrafter(std::uint8_t lowest = 0) : lowest_(lowest) {}

  /// Finds the drafts. A draft's confidence_bin is its match length: the longer the match, the
  /// likelier its continuation repeats.
  /// @param most  drafts a sequence
  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most, const DraftLength& control);
  /// The match, cut to `lengths`.
  std::vector<TokenDraft> propose(std::span<TokenSequence* const>,
                                  std::span<const std::size_t> lengths) const {
    return found_.cut_to(lengths);
  }
  /// The match of a sequence in the round, uncut.
  const TokenDraft& deterministic_draft(std::size_t sequence) const { return found_[sequence]; }
  template <class Verified>
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft>,
               const Verified&, std::span<const Outcome>) {
    for (const TokenSequence* sequence : sequences) {
      if (sequence->done()) forget(sequence->id());
    }
  }
  void forget(SequenceId id) { indices_.erase(id); }

 private:
  TokenDraft find(const TokenSequence& sequence, std::size_t most);

  std::uint8_t lowest_;
  std::unordered_map<SequenceId, SuffixIndex> indices_;
  DeterministicDrafts found_;
};

}  // namespace forerun
