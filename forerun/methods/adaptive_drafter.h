#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/draft_length.h"
#include "forerun/core/rule.h"
#include "forerun/core/sequence.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/draft_budget.h"
#include "forerun/methods/held_costs.h"
#include "forerun/methods/prefilled.h"

namespace forerun {

/// A drafter with an adaptive draft length. To the loop it is a drafter like any other; `learn`
/// receives the cost of each round.
///
/// If the noise of a discarded draft is used again (LatentSample), the seconds of a round are held
/// back until they cannot bias an output: see HeldCosts.
///
/// Sequence, Draft  what the loop draws: tokens, or latents.
/// Drafter  `propose(sequences, lengths)`: exactly that many drafts for each sequence; `observe` as
///          in speculate.h. Optional: `plan(sequences, most, control)`, the possible drafts of each
///          sequence, from which the controller plans; `deterministic_draft(sequence)`, the
///          deterministic draft of a sequence in the round, used or not, with tokens valid until
///          the next `plan`; `prefilled()`, whose seconds do not count as drafting;
///          `add_companions(sequences, drafts, control)`, once the drafts are made.
template <class Drafter, class Sequence = TokenSequence, class Draft = TokenDraft>
class AdaptiveDrafter {
 public:
  AdaptiveDrafter(Drafter drafter, DraftLength control, std::size_t max_draft)
      : drafter_(std::move(drafter)), control_(std::move(control)), max_draft_(max_draft) {}

  /// @param other_rows  rows of the target's pass that belong to none of the sequences
  std::vector<Draft> propose(std::span<Sequence* const> sequences, std::size_t other_rows = 0) {
    lengths_.assign(sequences.size(), 0);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      lengths_[i] = draft_budget(*sequences[i], max_draft_);
    }
    if constexpr (requires { drafter_.plan(sequences, lengths_, control_); }) {
      plans_ = drafter_.plan(sequences, lengths_, control_);
    } else {
      plans_.clear();
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        plans_.push_back({.id = sequences[i]->id(), .limit = lengths_[i]});
      }
    }
    if constexpr (requires { sequences[0]->remaining(); }) {
      for (std::size_t i = 0; i < plans_.size(); ++i) {
        plans_[i].remaining = sequences[i]->remaining();
      }
    }
    const auto planned = control_.plan(plans_, other_rows);
    std::copy(planned.begin(), planned.end(), lengths_.begin());
    std::vector<Draft> drafts = drafter_.propose(sequences, lengths_);
    if constexpr (requires { drafter_.add_companions(sequences, drafts, control_); }) {
      drafter_.add_companions(sequences, drafts, control_);
    }
    return drafts;
  }

  template <class Verified>
  void observe(std::span<Sequence* const> sequences, std::span<const Draft> drafts,
               const Verified& seen, std::span<const Outcome> outcomes) {
    drafter_.observe(sequences, drafts, seen, outcomes);
  }

  /// @param seconds  of the round; those in which the drafter read new text are left out here
  template <class Round>
  void learn(const Round& round, const Timings& seconds, std::size_t other_rows = 0) {
    seen_.clear();
    PassSeen pass{.rows = round.sequences.size() + other_rows,
                  .target_seconds = seconds.target,
                  .drafter_seconds = seconds.drafter,
                  .rest_seconds = seconds.rest};
    if constexpr (requires { drafter_.prefilled(); }) {
      const Prefilled now = drafter_.prefilled();
      pass.read = now.tokens - prefilled_.tokens;
      pass.read_seconds = now.seconds - prefilled_.seconds;
      pass.drafter_seconds -= pass.read_seconds;
      prefilled_ = now;
    }
    for (std::size_t i = 0, at = 0; i < round.sequences.size(); ++i, ++at) {
      const Sequence& sequence = *round.sequences[i];
      const Outcome& out = round.outcomes[i];
      // Sequences that were planned may have left the round.
      while (plans_[at].id != sequence.id()) ++at;
      SequenceOutcome seen{.id = sequence.id(),
                           .confidence_bin = plans_[at].confidence_bin,
                           .deterministic = plans_[at].deterministic,
                           .drafted = out.drafted,
                           .made = plans_[at].deterministic ? 0 : out.drafted,
                           .read = lengths_[at] > 0 ? plans_[at].unread : 0,
                           .examined = out.examined,
                           .accepted = out.accepted,
                           .done = sequence.done()};
      if constexpr (requires { drafter_.deterministic_draft(at); }) {
        seen.outputs = sequence.tokens().last(out.emitted);
        seen.draft = drafter_.deterministic_draft(at).tokens;
        seen.draft_confidence_bin = drafter_.deterministic_draft(at).confidence_bin;
        seen.draft_origin = drafter_.deterministic_draft(at).origin;
      }
      if constexpr (requires { round.verified.companion_rows(i); }) {
        seen.companions = round.verified.companion_rows(i);
      }
      seen_.push_back(seen);
      pass.rows += out.drafted + seen.companions;
      pass.companions += seen.companions;
      pass.drafted += seen_.back().made;
    }
    if constexpr (Sequence::kReusesNoise) {
      control_.observe(seen_, {});
      held_.add(pass, round);
      for (const PassSeen& cost : held_.release(round.sequences)) control_.observe({}, cost);
    } else {
      control_.observe(seen_, pass);
    }
  }

  void forget(SequenceId id) {
    if constexpr (requires { drafter_.forget(id); }) drafter_.forget(id);
    control_.forget(id);
    held_.forget(id);
  }
  Drafter& drafter() noexcept { return drafter_; }
  const Drafter& drafter() const noexcept { return drafter_; }
  const DraftLength& control() const noexcept { return control_; }

 private:
  Drafter drafter_;
  DraftLength control_;
  std::size_t max_draft_;
  HeldCosts held_;
  Prefilled prefilled_;
  std::vector<std::size_t> lengths_;
  std::vector<SequencePlan> plans_;
  std::vector<SequenceOutcome> seen_;
};

}  // namespace forerun
