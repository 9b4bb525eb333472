#pragma once

#include <span>
#include <utility>
#include <vector>

#include "forerun/core/acceptance.h"
#include "forerun/methods/dflash/dflash_drafter.h"
#include "forerun/methods/lookup/lookup.h"

namespace forerun {

/// Each lane drafts from what promises more: the continuation of an earlier place of its text, or a
/// block. Promise is the number of drafts expected to be kept, from how drafts of the same source,
/// match length and position fared so far. Sources are chosen before anything is drafted in the
/// round, by the text so far alone, so that every rule stays as exact as it is.
class DFlashLookupDrafter {
 public:
  explicit DFlashLookupDrafter(DFlashDrafter block) : block_(std::move(block)) {}

  static constexpr Planned kPlanned = Planned::kBeforeDrafting;

  /// Chooses the sources. @param lengths  most drafts a lane; lowered to what its source has
  /// @return  each lane's grade: 0 a block, else a match of that grade
  std::vector<std::size_t> foresee(std::span<TokenLane* const> lanes,
                                   std::span<std::size_t> lengths);
  std::vector<TokenDraft> propose(std::span<TokenLane* const> lanes,
                                  std::span<const std::size_t> lengths);
  double prefill_seconds() const noexcept { return block_.prefill_seconds(); }

  template <class Verified>
  void observe(std::span<TokenLane* const> lanes, std::span<const TokenDraft> drafts,
               const Verified& seen, std::span<const Outcome> outcomes) {
    block_.observe(lanes, drafts, seen, outcomes);
    lookup_.observe(lanes, drafts, seen, outcomes);
    learn(drafts, outcomes);
  }
  void forget(std::uint32_t request) { block_.forget(request); }

 private:
  double promise(std::size_t grade, std::size_t drafts) const;
  void learn(std::span<const TokenDraft> drafts, std::span<const Outcome> outcomes);

  DFlashDrafter block_;
  LookupDrafter lookup_;
  Acceptance acceptance_;
  std::vector<TokenDraft> found_;  // of this round
  std::vector<std::size_t> grades_;
};

}  // namespace forerun
