#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/rule.h"
#include "forerun/core/sequence.h"
#include "forerun/core/sequence_id.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/draft_mode.h"
#include "forerun/methods/prefilled.h"
#include "forerun/models/decoder_lm.h"
#include "forerun/tensor/cpu/kv_pool.h"

namespace forerun {

/// Drafts with a second, smaller model of the same vocabulary, token by token.
/// Source: Leviathan et al. 2023, arXiv:2211.17192.
class DraftModelDrafter {
 public:
  explicit DraftModelDrafter(const DecoderLm& model) : model_(model) {}

  /// A draft is limited by the drafting model's context.
  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most,
                                 const DraftLength& control) const;
  /// @param lengths  drafts a sequence; fewer where the drafting model's context ends, none while
  /// it still reads a long text
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::span<const std::size_t> lengths);
  /// Tokens that the model has not read: prompts, and outputs of plain rounds.
  Prefilled prefilled() const noexcept { return prefilled_; }

  template <class Verified>
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft>,
               const Verified&, std::span<const Outcome>) {
    for (const TokenSequence* sequence : sequences) forget_rejected(*sequence);
  }
  void forget(SequenceId id) { caches_.erase(id); }

 private:
  void step(std::span<TokenSequence* const> sequences, std::vector<TokenDraft>& drafts,
            std::span<const std::size_t> budgets, std::size_t k);
  bool catch_up(const TokenSequence& sequence);
  static std::vector<Token> unseen(const TokenSequence& sequence, const TokenDraft& draft,
                                   const KvCache& cache);
  KvCache& cache_of(const TokenSequence& sequence);
  std::size_t room_of(const TokenSequence& sequence) const;
  void forget_rejected(const TokenSequence& sequence);

  const DecoderLm& model_;
  std::shared_ptr<KvPool> pool_ = std::make_shared<KvPool>();
  std::unordered_map<SequenceId, KvCache> caches_;
  Prefilled prefilled_;
  std::vector<at::Tensor> logits_;  // one a step: what the drafts' laws view, until the next round
};

}  // namespace forerun
