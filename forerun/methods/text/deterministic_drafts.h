#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/sequence.h"
#include "forerun/core/token_rule.h"

namespace forerun {

/// The deterministic drafts of a round's sequences: found before their lengths are planned, then
/// cut to the plan.
class DeterministicDrafts {
 public:
  /// Takes the drafts of a round, one a sequence.
  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::vector<TokenDraft> drafts) {
    drafts_ = std::move(drafts);
    std::vector<SequencePlan> plans;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      plans.push_back({.id = sequences[i]->id(),
                       .limit = drafts_[i].size(),
                       .confidence_bin = drafts_[i].confidence_bin,
                       .deterministic = true,
                       .origin = drafts_[i].origin});
    }
    return plans;
  }
  std::vector<TokenDraft> cut_to(std::span<const std::size_t> lengths) const {
    std::vector<TokenDraft> drafts = drafts_;
    for (std::size_t i = 0; i < drafts.size(); ++i) cut(drafts[i], lengths[i]);
    return drafts;
  }
  /// The draft of a sequence in the round, uncut.
  const TokenDraft& operator[](std::size_t sequence) const { return drafts_[sequence]; }

 private:
  std::vector<TokenDraft> drafts_;
};

}  // namespace forerun
