#include "forerun/methods/lookup/lookup.h"

#include <algorithm>
#include <bit>

namespace forerun {
namespace {

// 2, 3, 4 to 5, 6 to 9, ... tokens that agree.
std::uint8_t grade_of(std::size_t match, std::size_t lowest) {
  const auto length =
      match < 4 ? (match < 3 ? 0U : 1U) : static_cast<std::size_t>(std::bit_width(match - 2));
  return static_cast<std::uint8_t>(std::min(kGrades - 1, lowest + length));
}

}  // namespace

TokenDraft LookupDrafter::find(const TokenLane& lane, std::size_t most) {
  TokenDraft draft;
  const auto text = lane.tokens();
  SuffixIndex& index = indices_[lane.request()];
  index.extend(text);
  const SuffixIndex::Match match = index.longest(text);
  if (match.length == 0) return draft;
  draft.grade = grade_of(match.length, lowest_);
  std::vector<Token>& out = draft.tokens;
  out.reserve(most);
  // Past the end of the text the draft continues itself: a loop of any period is followed.
  for (std::size_t k = 0; k < most; ++k) {
    const std::size_t from = match.next + k;
    out.push_back(from < text.size() ? text[from] : out[from - text.size()]);
  }
  return draft;
}

std::vector<LanePlan> LookupDrafter::foresee(std::span<TokenLane* const> lanes,
                                             std::span<const std::size_t> most,
                                             const DraftLength&) {
  std::vector<LanePlan> plans;
  found_.clear();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const TokenDraft& draft = found_.emplace_back(find(*lanes[i], most[i]));
    plans.push_back({.request = lanes[i]->request(),
                     .limit = draft.size(),
                     .grade = draft.grade,
                     .found = true,
                     .origin = draft.origin});
  }
  return plans;
}

std::vector<TokenDraft> LookupDrafter::propose(std::span<TokenLane* const> lanes,
                                               std::span<const std::size_t> lengths) const {
  std::vector<TokenDraft> drafts = found_;
  for (std::size_t i = 0; i < lanes.size(); ++i) cut(drafts[i], lengths[i]);
  return drafts;
}

}  // namespace forerun
