#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/sequence.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/text/deterministic_drafts.h"
#include "forerun/methods/text/draft_source.h"

namespace forerun {

/// Drafts with a DraftSource, behind the controller of draft lengths.
class SourceDrafter {
 public:
  explicit SourceDrafter(std::unique_ptr<DraftSource> source) : source_(std::move(source)) {}

  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most, const DraftLength& control);
  std::vector<TokenDraft> propose(std::span<TokenSequence* const>,
                                  std::span<const std::size_t> lengths) const {
    return found_.cut_to(lengths);
  }
  /// The draft of a sequence in the round, uncut.
  const TokenDraft& deterministic_draft(std::size_t sequence) const { return found_[sequence]; }
  template <class Verified>
  void observe(std::span<TokenSequence* const>, std::span<const TokenDraft>, const Verified&,
               std::span<const Outcome>) {}
  void forget(SequenceId id) { source_->forget(id); }

 private:
  std::unique_ptr<DraftSource> source_;
  DeterministicDrafts found_;
};

}  // namespace forerun
