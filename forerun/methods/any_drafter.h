#pragma once

#include <span>
#include <variant>
#include <vector>

#include "forerun/methods/adaptive_drafter.h"
#include "forerun/methods/dflash/dflash_drafter.h"
#include "forerun/methods/dflash/dflash_lookup.h"
#include "forerun/methods/draft_model/draft_model.h"
#include "forerun/methods/lookup/lookup.h"

namespace forerun {

/// Plain decoding: drafts nothing.
class NoDrafter {
 public:
  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences) {
    return std::vector<TokenDraft>(sequences.size());
  }
  template <class Verified>
  void observe(std::span<TokenSequence* const>, std::span<const TokenDraft>, const Verified&,
               std::span<const Outcome>) {}
  template <class Round>
  void learn(const Round&, const Timings&) {}
  void forget(std::uint32_t) {}
};

/// The drafter chosen at run time; dispatched once a round.
class AnyDrafter {
 public:
  template <class Drafter>
  explicit AnyDrafter(Drafter drafter) : drafter_(std::move(drafter)) {}

  std::vector<TokenDraft> propose(std::span<TokenSequence* const> sequences) {
    return std::visit([&](auto& d) { return d.propose(sequences); }, drafter_);
  }
  template <class Verified>
  void observe(std::span<TokenSequence* const> sequences, std::span<const TokenDraft> drafts,
               const Verified& seen, std::span<const Outcome> outcomes) {
    std::visit([&](auto& d) { d.observe(sequences, drafts, seen, outcomes); }, drafter_);
  }
  template <class Round>
  void learn(const Round& round, const Timings& seconds) {
    std::visit([&](auto& d) { d.learn(round, seconds); }, drafter_);
  }
  /// Drops the state of a sequence that was given up.
  void forget(std::uint32_t request) {
    std::visit([&](auto& d) { d.forget(request); }, drafter_);
  }
  /// The controller of draft lengths; null if nothing is drafted.
  const DraftLength* control() const {
    const auto of = [](const auto& d) -> const DraftLength* {
      if constexpr (requires { d.control(); }) {
        return &d.control();
      } else {
        return nullptr;
      }
    };
    return std::visit(of, drafter_);
  }

 private:
  std::variant<NoDrafter, AdaptiveDrafter<LookupDrafter>, AdaptiveDrafter<DraftModelDrafter>,
               AdaptiveDrafter<DFlashDrafter>, AdaptiveDrafter<DFlashLookupDrafter>>
      drafter_;
};

}  // namespace forerun
