#pragma once

#include <span>
#include <utility>
#include <vector>

#include "forerun/core/acceptance.h"
#include "forerun/methods/dflash/dflash_drafter.h"
#include "forerun/methods/lookup/lookup.h"

namespace forerun {

/// Each sequence drafts from the source with more expected outputs a second: the text after an
/// earlier match, which is free, or a block. The source is chosen before anything is drafted in the
/// round, by the past alone, so every rule stays exact. With a fixed length the text alone chooses:
/// a match of 6 tokens and more is taken.
class DFlashLookupDrafter {
 public:
  explicit DFlashLookupDrafter(DFlashDrafter block) : block_(std::move(block)) {}

  /// Chooses the sources. Bin 0 is a block, others are matches.
  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most, const DraftLength& control);
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::span<const std::size_t> lengths);
  Prefilled prefilled() const noexcept { return block_.prefilled(); }

  template <class Verified>
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft> drafts,
               const Verified& seen, std::span<const Outcome> outcomes) {
    block_.observe(sequences, drafts, seen, outcomes);
    lookup_.observe(sequences, drafts, seen, outcomes);
  }
  /// The match of a sequence in the round, used or not, uncut.
  const TokenDraft& deterministic_draft(std::size_t sequence) const {
    return lookup_.deterministic_draft(sequence);
  }
  std::span<const std::int64_t> features() const noexcept { return block_.features(); }
  std::int64_t state_width() const noexcept { return block_.state_width(); }
  void read(const TokenSequence& sequence, const HiddenStates& states) {
    block_.read(sequence, states);
  }
  bool share(SequenceId from, SequenceId to, std::int64_t positions) {
    return block_.share(from, to, positions);
  }
  void forget(SequenceId id) {
    block_.forget(id);
    lookup_.forget(id);
  }

 private:
  DFlashDrafter block_;
  LookupDrafter lookup_{1};
  std::vector<bool> looks_up_;  // by sequence of the round
};

}  // namespace forerun
