#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/rule.h"
#include "forerun/core/sampling_params.h"
#include "forerun/core/sequence.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/draft_mode.h"
#include "forerun/methods/prefilled.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// Drafts with a second, smaller model of the same vocabulary, token by token.
/// Source: Leviathan et al. 2023, arXiv:2211.17192.
class DraftModelDrafter {
 public:
  /// @param sampling  the target's: exactness holds for any, acceptance is best if they are alike
  /// @param go_on  asked while prompts are read; where it is false, `propose` throws Interrupted
  DraftModelDrafter(const DecoderLm& model, SamplingParams sampling, DraftMode mode,
                    GoOn go_on = {});

  /// A draft is limited by the drafting model's context.
  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most,
                                 const DraftLength& control) const;
  /// @param lengths  drafts a sequence; fewer where the drafting model's context ends
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::span<const std::size_t> lengths);
  /// Tokens that the model has not read: prompts, and outputs of plain rounds.
  Prefilled prefilled() const noexcept { return prefilled_; }

  template <class Verified>
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft>,
               const Verified&, std::span<const Outcome>) {
    for (const TokenSequence* sequence : sequences) forget_rejected(*sequence);
  }

 private:
  Token pick(const TokenLaw& law, const RngKey& key) const;
  void step(std::span<TokenSequence* const> sequences, std::vector<TokenDraft>& drafts,
            std::span<const std::size_t> budgets, std::size_t k);
  std::vector<Token> unseen(const TokenSequence& sequence, const TokenDraft& draft, KvCache& cache);
  KvCache& cache_of(const TokenSequence& sequence);
  std::size_t room_of(const TokenSequence& sequence) const;
  void forget_rejected(const TokenSequence& sequence);

  const DecoderLm& model_;
  SamplingParams sampling_;
  DraftMode mode_;
  GoOn go_on_;
  std::unordered_map<std::uint32_t, KvCache> caches_;  // by request
  Prefilled prefilled_;
  std::vector<at::Tensor> logits_;  // one a step: what the drafts' laws view, until the next round
};

}  // namespace forerun
