#include "forerun/methods/dflash/dflash_lookup.h"

#include <utility>

namespace forerun {

std::vector<LanePlan> DFlashLookupDrafter::foresee(std::span<TokenLane* const> lanes,
                                                   std::span<const std::size_t> most,
                                                   const DraftLength& control) {
  std::vector<LanePlan> plans = lookup_.foresee(lanes, most, control);
  const std::vector<LanePlan> blocks = block_.foresee(lanes, most, control);
  looks_up_.assign(lanes.size(), false);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    LanePlan& plan = plans[i];
    // Where neither pays, the block is the one to ask about: the other is judged without that.
    looks_up_[i] = plan.limit > 0 &&
                   (blocks[i].limit == 0 || control.promise(plan) > control.promise(blocks[i]));
    if (!looks_up_[i]) plan = blocks[i];
  }
  return plans;
}

std::vector<TokenDraft> DFlashLookupDrafter::propose(std::span<TokenLane* const> lanes,
                                                     std::span<const std::size_t> lengths) {
  std::vector<std::size_t> blocks(lengths.begin(), lengths.end());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (looks_up_[i]) blocks[i] = 0;
  }
  std::vector<TokenDraft> drafts = block_.propose(lanes, blocks);
  std::vector<TokenDraft> found = lookup_.propose(lanes, lengths);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (looks_up_[i]) drafts[i] = std::move(found[i]);
  }
  return drafts;
}

}  // namespace forerun
