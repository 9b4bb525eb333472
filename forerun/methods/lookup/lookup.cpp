#include "forerun/methods/lookup/lookup.h"

#include "forerun/methods/draft_budget.h"

namespace forerun {

std::vector<TokenDraft> LookupDrafter::propose(std::span<TokenLane* const> lanes) {
  std::vector<TokenDraft> drafts(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const std::size_t most = draft_budget(*lanes[i], max_draft_);
    const auto text = lanes[i]->tokens();
    SuffixIndex& index = indices_[lanes[i]->request()];
    index.extend(text);
    const SuffixIndex::Match match = index.longest(text);
    if (match.length == 0) continue;
    std::vector<Token>& out = drafts[i].tokens;
    // Past the end of the text the draft continues itself: a loop of any period is followed.
    for (std::size_t k = 0; k < most; ++k) {
      const std::size_t from = match.next + k;
      out.push_back(from < text.size() ? text[from] : out[from - text.size()]);
    }
  }
  return drafts;
}

}  // namespace forerun
