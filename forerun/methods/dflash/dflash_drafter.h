#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/sequence.h"
#include "forerun/core/sequence_id.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/draft_mode.h"
#include "forerun/methods/prefilled.h"
#include "forerun/methods/text/verified_tokens.h"
#include "forerun/models/dflash/dflash_passes.h"

namespace forerun {

/// Drafts a whole block in one pass from the target's hidden states of the verifying passes: rows
/// of kept tokens become context, rows after a rejection are never read.
///
/// Tokens are chosen slot by slot: the likeliest, or one drawn from the slot's law, given the
/// previous token if the network has a Markov head. Tokens outside a reduced vocabulary have
/// probability zero.
/// The network always predicts the block size it was trained for; the first `lengths` drafts are
/// used.
/// Source: Chen, Liang and Liu 2026, arXiv:2602.06036, section 3; Markov head: arXiv:2607.05147.
class DFlashDrafter {
 public:
  explicit DFlashDrafter(std::shared_ptr<const DFlashPasses> network)
      : network_(std::move(network)) {}

  /// Zero-based ids of the target's blocks whose output it reads.
  std::span<const std::int64_t> features() const noexcept {
    return network_->config().feature_layers;
  }

  /// Floats of a position's states.
  std::int64_t state_width() const noexcept { return width(); }

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
  /// Takes over the first positions of another sequence.
  bool share(SequenceId from, SequenceId to, std::int64_t positions);
  /// The states of a piece of the prompt.
  void read(const TokenSequence& sequence, const HiddenStates& states) {
    append(sequence, states, states.first + states.count);
  }
  void forget(SequenceId id) { sequences_.erase(id); }

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
  // Adds the states of the sequence's positions up to `end` that it lacks.
  void append(const TokenSequence& sequence, const HiddenStates& states, std::int64_t end);
  bool catch_up(SequenceState& sequence);
  void fill(const TokenSequence& sequence, TokenDraft& draft, const at::Tensor& logits,
            std::int64_t row, std::int64_t count);
  Token pick(const TokenSequence& sequence, std::span<float> logits, const RngKey& key,
             TokenDraft& draft);
  Token pick_scored(const TokenSequence& sequence, std::span<float> logits, const RngKey& key,
                    TokenDraft& draft);

  std::shared_ptr<const DFlashPasses> network_;
  std::unordered_map<SequenceId, SequenceState> sequences_;
  std::vector<std::vector<float>> rows_;  // over the whole vocabulary: what laws view
  std::size_t rows_used_ = 0;
  Prefilled prefilled_;
};

}  // namespace forerun
