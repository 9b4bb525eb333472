#pragma once

#include <span>
#include <variant>
#include <vector>

#include "forerun/methods/draft_model/draft_model.h"
#include "forerun/methods/lookup/lookup.h"

namespace forerun {

/// Plain decoding: drafts nothing.
class NoDrafter {
 public:
  std::vector<TokenDraft> propose(std::span<TokenLane* const> lanes) {
    return std::vector<TokenDraft>(lanes.size());
  }
  template <class Verified>
  void observe(std::span<TokenLane* const>, std::span<const TokenDraft>, const Verified&,
               std::span<const Outcome>) {}
};

/// The drafter chosen at run time; looked up once a round.
class AnyDrafter {
 public:
  template <class Drafter>
  explicit AnyDrafter(Drafter drafter) : drafter_(std::move(drafter)) {}

  std::vector<TokenDraft> propose(std::span<TokenLane* const> lanes) {
    return std::visit([&](auto& d) { return d.propose(lanes); }, drafter_);
  }
  template <class Verified>
  void observe(std::span<TokenLane* const> lanes, std::span<const TokenDraft> drafts,
               const Verified& seen, std::span<const Outcome> outcomes) {
    std::visit([&](auto& d) { d.observe(lanes, drafts, seen, outcomes); }, drafter_);
  }

 private:
  std::variant<NoDrafter, LookupDrafter, DraftModelDrafter> drafter_;
};

}  // namespace forerun
