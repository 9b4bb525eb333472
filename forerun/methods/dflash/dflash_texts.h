#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/sequence.h"
#include "forerun/core/sequence_id.h"
#include "forerun/methods/prefilled.h"
#include "forerun/methods/text/verified_tokens.h"
#include "forerun/models/dflash/dflash_passes.h"

namespace forerun {

/// What a DFlash network has read of each sequence: hidden states of kept tokens become context,
/// rows after a rejection are never read.
class DFlashTexts {
 public:
  explicit DFlashTexts(std::shared_ptr<const DFlashPasses> network)
      : network_(std::move(network)) {}

  const DFlashPasses& network() const noexcept { return *network_; }
  /// Floats of a position's states.
  std::int64_t width() const noexcept {
    return network_->config().features() * network_->config().hidden;
  }
  bool known(SequenceId id) const { return sequences_.contains(id); }
  /// States that have to be read before a block; 0 if they fit into its pass.
  std::size_t unread(SequenceId id) const;
  /// Adds the states of a piece of the prompt.
  void read(const TokenSequence& sequence, const HiddenStates& states) {
    append(sequence, states, states.first + states.count);
  }
  /// Adds those of the tokens that stay: the whole text but the newest token, which the target has
  /// not read yet.
  void observe(const TokenSequence& sequence, const HiddenStates& states) {
    append(sequence, states, static_cast<std::int64_t>(sequence.tokens().size()) - 1);
  }
  /// Takes over the first positions of another sequence.
  bool share(SequenceId from, SequenceId to, std::int64_t positions);
  void forget(SequenceId id) { sequences_.erase(id); }
  /// Prompts, and long stretches without drafts.
  Prefilled prefilled() const noexcept { return prefilled_; }

  /// A block to be made for a known sequence.
  struct Wanted {
    const TokenSequence* sequence = nullptr;
    std::int64_t drafts = 0;
  };
  struct Blocks {
    DFlashPasses::Blocks rows;
    std::vector<std::int64_t> first;  ///< first row of each wanted block; -1: not made
  };
  /// One pass. Of a sequence with much to read some is read, and no block is made.
  Blocks forward(std::span<const Wanted> wanted);

 private:
  struct State {
    std::unique_ptr<DFlashContext> context;
    std::vector<float> pending;  // states of positions context->length(), ...
  };
  std::int64_t pending_rows(const State& state) const {
    return static_cast<std::int64_t>(state.pending.size()) / width();
  }
  // Adds the states of the sequence's positions up to `end` that it lacks.
  void append(const TokenSequence& sequence, const HiddenStates& states, std::int64_t end);
  bool catch_up(State& state);

  std::shared_ptr<const DFlashPasses> network_;
  std::unordered_map<SequenceId, State> sequences_;
  Prefilled prefilled_;
};

}  // namespace forerun
