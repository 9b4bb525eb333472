#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
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
#include "forerun/methods/text/decoder_target.h"
#include "forerun/models/dflash/dflash_passes.h"

namespace forerun {

/// Drafts a whole block in one pass from the target's hidden states of the verifying passes: rows
/// of kept tokens become context, rows after a rejection are never read.
///
/// Tokens are chosen slot by slot: the likeliest, or one drawn from the slot's law, given the
/// previous token if the network has a Markov head. Tokens outside a reduced vocabulary have
/// probability zero. A sequence gets drafts from its second round on: the first has no states yet.
/// The network always predicts the block size it was trained for; the first `lengths` drafts are
/// used.
/// Source: Chen, Liang and Liu 2026, arXiv:2602.06036, section 3; Markov head: arXiv:2607.05147.
class DFlashDrafter {
 public:
  /// @param sampling  the target's: exactness holds for any, acceptance is best if they are alike
  /// @param scored   laws for greedy drafts too, which only ratio-on-search needs
  DFlashDrafter(std::shared_ptr<const DFlashPasses> network, SamplingParams sampling,
                DraftMode mode, bool scored = false);

  /// A block is as long as in training; all confidence_bins are 0.
  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most,
                                 const DraftLength& control) const;
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::span<const std::size_t> lengths);
  /// Prompts, and long stretches without drafts.
  Prefilled prefilled() const noexcept { return prefilled_; }

  /// @param seen  gives the states: `seen.states(sequence)`
  template <class Verified>
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft>,
               const Verified& seen, std::span<const Outcome>) {
    for (std::size_t i = 0; i < sequences.size(); ++i) take(*sequences[i], seen.states(i));
  }
  void forget(std::uint32_t request) { sequences_.erase(request); }

 private:
  struct SequenceState {
    std::unique_ptr<DFlashContext> context;
    std::vector<float> pending;  // states of positions context->length(), ...
  };

  std::size_t block() const noexcept {  // drafts
    return static_cast<std::size_t>(network_->config().drafts());
  }
  std::int64_t width() const noexcept {
    return network_->config().features() * network_->config().hidden;
  }
  std::int64_t pending_rows(const SequenceState& sequence) const {
    return static_cast<std::int64_t>(sequence.pending.size()) / width();
  }
  void take(const TokenSequence& sequence, const HiddenStates& states);
  void catch_up(SequenceState& sequence);
  void fill(const TokenSequence& sequence, TokenDraft& draft, const at::Tensor& logits,
            std::int64_t row, std::int64_t count);
  Token pick(std::span<float> logits, const RngKey& key, TokenDraft& draft);
  Token pick_scored(std::span<float> logits, const RngKey& key, TokenDraft& draft);

  std::shared_ptr<const DFlashPasses> network_;
  SamplingParams sampling_;
  DraftMode mode_;
  bool scored_;
  std::unordered_map<std::uint32_t, SequenceState> sequences_;  // by request
  std::vector<std::vector<float>> rows_;  // over the whole vocabulary: what laws view
  std::size_t rows_used_ = 0;
  Prefilled prefilled_;
};

}  // namespace forerun
