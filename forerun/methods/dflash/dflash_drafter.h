#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/sequence.h"
#include "forerun/core/sequence_id.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/dflash/dflash_texts.h"
#include "forerun/methods/text/draft_picker.h"

namespace forerun {

/// Drafts a whole block in one pass from the target's hidden states of the verifying passes.
///
/// Tokens are chosen slot by slot: the likeliest, or one drawn from the slot's law, given the
/// previous token if the network has a Markov head or a selector. Tokens outside a reduced
/// vocabulary, or a selector's candidates, have probability zero.
/// The network always predicts the block size it was trained for; the first `lengths` drafts are
/// used.
/// Source: Chen, Liang and Liu 2026, arXiv:2602.06036, section 3; Markov head: arXiv:2607.05147;
/// selector: DFlash 2, z-lab/dflash.
class DFlashDrafter {
 public:
  explicit DFlashDrafter(std::shared_ptr<const DFlashPasses> network)
      : texts_(std::move(network)), picker_(picker_for(texts_.network())) {}

  /// Zero-based ids of the target's blocks whose output it reads.
  std::span<const std::int64_t> features() const noexcept {
    return texts_.network().config().feature_layers;
  }

  /// Floats of a position's states.
  std::int64_t state_width() const noexcept { return texts_.width(); }

  /// A block is as long as in training; all confidence_bins are 0.
  std::vector<SequencePlan> plan(std::span<TokenSequence* const> sequences,
                                 std::span<const std::size_t> most,
                                 const DraftLength& control) const;
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::span<const std::size_t> lengths);
  Prefilled prefilled() const noexcept { return texts_.prefilled(); }

  /// @param seen  gives the states: `seen.states(sequence)`
  template <class Verified>
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft>,
               const Verified& seen, std::span<const Outcome>) {
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      texts_.observe(*sequences[i], seen.states(i));
    }
  }
  bool share(SequenceId from, SequenceId to, std::int64_t positions) {
    return texts_.share(from, to, positions);
  }
  void read(const TokenSequence& sequence, const HiddenStates& states) {
    texts_.read(sequence, states);
  }
  void forget(SequenceId id) { texts_.forget(id); }

 private:
  std::size_t block() const noexcept {  // drafts
    return static_cast<std::size_t>(texts_.network().config().drafts());
  }
  static DraftPicker picker_for(const DFlashPasses& network);
  void fill(const TokenSequence& sequence, TokenDraft& draft, const DFlashPasses::Blocks& rows,
            std::int64_t row, std::int64_t count);

  DFlashTexts texts_;
  DraftPicker picker_;
};

}  // namespace forerun
