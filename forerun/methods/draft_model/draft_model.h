#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/sequence.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/draft_model/draft_model_texts.h"

namespace forerun {

/// Drafts with a second, smaller model of the same vocabulary, token by token.
/// Source: Leviathan et al. 2023, arXiv:2211.17192.
class DraftModelDrafter {
 public:
  explicit DraftModelDrafter(const DecoderLm& model) : texts_(model) {}

  /// A draft is limited by the drafting model's context.
  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most,
                                 const DraftLength& control) const;
  /// @param lengths  drafts a sequence; fewer where the drafting model's context ends, none while
  /// it still reads a long text
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::span<const std::size_t> lengths);
  /// Tokens that the model has not read: prompts, and outputs of plain rounds.
  Prefilled prefilled() const noexcept { return texts_.prefilled(); }

  template <class Verified>
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft>,
               const Verified&, std::span<const Outcome>) {
    for (const TokenSequence* sequence : sequences) texts_.settle(*sequence);
  }
  void forget(SequenceId id) { texts_.forget(id); }

 private:
  void step(std::span<TokenSequence* const> sequences, std::vector<TokenDraft>& drafts,
            std::span<const std::size_t> budgets, std::size_t k);

  DraftModelTexts texts_;
  std::vector<at::Tensor> logits_;  // one a step: what the drafts' laws view, until the next round
};

}  // namespace forerun
