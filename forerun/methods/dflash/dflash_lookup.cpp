#include "forerun/methods/dflash/dflash_lookup.h"

#include <algorithm>

namespace forerun {

std::vector<LanePlan> DFlashLookupDrafter::foresee(std::span<TokenLane* const> lanes,
                                                   std::span<const std::size_t> most,
                                                   const DraftLength& control) {
  std::vector<LanePlan> plans = lookup_.foresee(lanes, most, control);
  const std::vector<LanePlan> blocks = block_.foresee(lanes, most, control);
  found_ = lookup_.propose(lanes, most);
  looks_up_.assign(lanes.size(), false);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    LanePlan& plan = plans[i];
    plan.grade = std::min<std::size_t>(kGrades - 1, plan.grade + 1U);
    found_[i].grade = static_cast<std::uint8_t>(plan.grade);
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
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (!looks_up_[i]) continue;
    drafts[i] = found_[i];
    cut(drafts[i], lengths[i]);
  }
  return drafts;
}

}  // namespace forerun
