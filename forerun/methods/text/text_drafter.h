#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/sequence_id.h"
#include "forerun/methods/text/companion_rows.h"
#include "forerun/methods/text/verified_tokens.h"

namespace forerun {

class DraftLength;

/// A drafter of texts as the engine sees it. One object drafts for all sequences that share it; it
/// keeps what it knows of each by the sequence's id.
class TextDrafter {
 public:
  virtual ~TextDrafter() = default;

  /// Zero-based ids of the target's blocks whose output it reads, in the order in which it expects
  /// them. Constant.
  virtual std::span<const std::int64_t> features() const { return {}; }
  /// Whether it has to have read the states of a text from its start: then the first positions can
  /// be taken over from texts of this drafter alone. Constant.
  virtual bool reads_whole_text() const { return !features().empty(); }
  /// Floats of a position's states, of all its blocks. Constant.
  virtual std::int64_t state_width() const { return 0; }
  /// Of drafted tokens that the outputs of the coming pass do not reach, `observe` reads the logits
  /// below this one: greedy passes may leave out the others, and make the first NaN where they do.
  virtual std::int64_t unreached_logits() const { return 0; }
  /// A draft for each sequence, of 0 or more tokens. Views into it stay valid until the next call.
  /// @param other_rows  rows of the coming pass that belong to none of these sequences
  virtual std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                          std::size_t other_rows) = 0;
  /// Rows that it adds to the pass over the drafts that it proposed last: one entry a sequence of
  /// that call, or none at all. The engine may leave them out, of any sequence: those that ran are
  /// told by VerifiedTokens::companion_rows. A view, valid until the next `propose`.
  virtual std::span<const CompanionRows> companions() const { return {}; }
  /// Hidden states of a piece of a sequence's prompt. Pieces come in order, without a gap.
  virtual void read(const TokenSequence& /*sequence*/, const HiddenStates& /*states*/) {}
  /// The result of the verifying pass.
  virtual void observe(const TextRound& round) = 0;
  /// What the round took, after `observe`.
  virtual void learn(const TextRound& /*round*/, const Timings& /*seconds*/,
                     std::size_t /*other_rows*/) {}
  /// Drops what is known of a sequence that ended, was given up, or is begun again. Unknown ids are
  /// ignored.
  virtual void forget(SequenceId id) = 0;
  /// Makes what is known of the first `positions` positions of `from` known of `to`, a sequence
  /// that begins with the same tokens. False: it cannot; then `to` has to be read from its start if
  /// the drafter reads hidden states.
  virtual bool share(SequenceId /*from*/, SequenceId /*to*/, std::int64_t /*positions*/) {
    return features().empty();
  }
  /// The controller of draft lengths; null if there is none.
  virtual const DraftLength* control() const { return nullptr; }
};

}  // namespace forerun
