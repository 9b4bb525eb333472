#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "forerun/methods/adaptive_drafter.h"
#include "forerun/methods/text/text_drafter.h"

namespace forerun {

/// A drafter behind the controller of draft lengths.
template <class Drafter>
class ControlledDrafter : public TextDrafter {
 public:
  ControlledDrafter(Drafter drafter, DraftLength control, std::size_t max_draft)
      : drafter_(std::move(drafter), std::move(control), max_draft) {}

  std::span<const std::int64_t> features() const override {
    if constexpr (requires { drafter_.drafter().features(); }) {
      return drafter_.drafter().features();
    } else {
      return {};
    }
  }
  std::int64_t state_width() const override {
    if constexpr (requires { drafter_.drafter().state_width(); }) {
      return drafter_.drafter().state_width();
    } else {
      return 0;
    }
  }
  std::int64_t unreached_logits() const override {
    if constexpr (requires { drafter_.drafter().unreached_logits(); }) {
      return drafter_.drafter().unreached_logits();
    } else {
      return 0;
    }
  }
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences,
                                  std::size_t other_rows) override {
    return drafter_.propose(sequences, other_rows);
  }
  std::span<const CompanionRows> companions() const override {
    if constexpr (requires { drafter_.drafter().companions(); }) {
      return drafter_.drafter().companions();
    } else {
      return {};
    }
  }
  void read(const TokenSequence& sequence, const HiddenStates& states) override {
    if constexpr (requires { drafter_.drafter().read(sequence, states); }) {
      drafter_.drafter().read(sequence, states);
    }
  }
  void observe(const TextRound& round) override {
    drafter_.observe(round.sequences, round.drafts, round.verified, round.outcomes);
  }
  void learn(const TextRound& round, const Timings& seconds, std::size_t other_rows) override {
    drafter_.learn(round, seconds, other_rows);
  }
  void forget(SequenceId id) override { drafter_.forget(id); }
  bool share(SequenceId from, SequenceId to, std::int64_t positions) override {
    if constexpr (requires { drafter_.drafter().share(from, to, positions); }) {
      return drafter_.drafter().share(from, to, positions);
    } else {
      return TextDrafter::share(from, to, positions);
    }
  }
  const DraftLength* control() const override { return &drafter_.control(); }

 private:
  AdaptiveDrafter<Drafter> drafter_;
};

}  // namespace forerun
