#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/sequence.h"
#include "forerun/core/token_tree.h"
#include "forerun/methods/prefilled.h"
#include "forerun/methods/text/companion_rows.h"
#include "forerun/methods/text/verified_tokens.h"
#include "forerun/methods/tree/row_offer.h"

namespace forerun {

/// The draft of a sequence after the target's pass over it.
struct VerifiedDraft {
  const TokenSequence& sequence;  ///< with the outputs of the round
  std::span<const Token> text;    ///< before them
  const TokenDraft& draft;
  const Outcome& outcome;
  const VerifiedTokens& rows;
  std::size_t index;  ///< of the sequence in `rows`

  /// [vocab] float32: what the target predicts after the text (step 0), after drafted token
  /// step - 1. Where the rule has used them, in the sampling's units: their order is the same.
  std::span<const float> logits(std::size_t step) const { return rows.logits(index, step); }

  bool companions_ran = false;      ///< those that TreeSource::companions added
  std::size_t first_companion = 0;  ///< of the source's, among all that are scored
  /// [vocab] float32: the logits of the source's number `i` of CompanionRows::scored.
  std::span<const float> companion(std::size_t i) const {
    return rows.companion(index, first_companion + i);
  }
};

/// A source of drafts for trees: for every node it says which tokens may follow. The trees of a
/// round are grown one after another; for each, `begin`, then in turn `children` of the newest node
/// (the root first) and `add` of the next.
class TreeSource {
 public:
  virtual ~TreeSource() = default;

  /// Of all its cells, with nothing learned.
  virtual HitRates rates() const = 0;
  /// No other source drafts beside it.
  virtual void alone() {}
  /// What it keeps between texts lives in `memory`, which outlives it; empty the first time.
  virtual void remember(std::any& /*memory*/) {}
  /// @return  false: it has nothing for this sequence in this round
  virtual bool begin(const TokenSequence& sequence) = 0;
  /// @param parent, node  as in TokenTree
  virtual void add(std::size_t parent, Token token) = 0;
  /// Appends the candidates after the newest node: tokens and cells.
  virtual void children(std::vector<TreeChild>& out) = 0;
  /// Whether it ranks candidates by the noise that will decide the output, under shared noise; if
  /// not, TreeDrafter does (NoiseOdds).
  virtual bool knows_noise() const { return false; }
  /// Adds rows of its own to the coming pass over the sequence and its draft, if they are worth
  /// their price: now or in later rounds. `observe` gets their logits, if they ran.
  virtual void companions(const TokenSequence& /*sequence*/, const TokenDraft& /*draft*/,
                          const RowOffer& /*offer*/, CompanionRows& /*rows*/) {}
  /// An output was drafted by this source and by no other.
  virtual void earned(SequenceId /*id*/) {}
  /// Drafts of this source and of no other are in the coming pass, at the price of so many outputs.
  virtual void spent(SequenceId /*id*/, double /*outputs*/) {}
  /// As TextDrafter::unreached_logits.
  virtual std::int64_t unreached_logits() const { return 0; }
  /// After every pass, for every sequence in it.
  virtual void observe(const VerifiedDraft& /*verified*/) {}
  virtual void forget(SequenceId id) = 0;
};

/// A source that runs a network for a tree; most of what it may need has a default.
class NetworkSource : public TreeSource {
 public:
  /// Tokens that a run makes for one sequence: what its cost counts.
  virtual std::size_t made() const = 0;
  /// Whether it can draft for the sequence, and what it has to read before.
  struct State {
    bool ready = false;
    std::size_t unread = 0;
  };
  virtual State state(const TokenSequence& /*sequence*/) const { return {.ready = true}; }
  /// Runs the network for sequences that are ready; `begin` is true of those that got drafts.
  virtual void query(std::span<const TokenSequence* const> /*sequences*/) {}
  virtual Prefilled prefilled() const { return {}; }

  virtual std::span<const std::int64_t> features() const { return {}; }
  /// As TextDrafter::reads_whole_text.
  virtual bool reads_whole_text() const { return !features().empty(); }
  virtual std::int64_t state_width() const { return 0; }
  virtual void read(const TokenSequence& /*sequence*/, const HiddenStates& /*states*/) {}
  virtual void observe_states(const TokenSequence& /*sequence*/, const HiddenStates& /*states*/) {}
  virtual bool share(SequenceId /*from*/, SequenceId /*to*/, std::int64_t /*positions*/) {
    return true;
  }
};

}  // namespace forerun
