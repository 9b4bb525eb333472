#include "forerun/methods/lookup/lookup.h"

#include <algorithm>
#include <bit>

namespace forerun {
namespace {

// 2, 3, 4 to 5, 6 to 9, ... tokens that agree.
std::uint8_t grade_of(std::size_t match) {
  if (match < 4) return match < 3 ? 0 : 1;
  return static_cast<std::uint8_t>(
      std::min<std::size_t>(kGrades - 1, static_cast<std::size_t>(std::bit_width(match - 2))));
}

}  // namespace

std::vector<TokenDraft> LookupDrafter::propose(std::span<TokenLane* const> lanes,
                                               std::span<const std::size_t> lengths) {
  std::vector<TokenDraft> drafts(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const auto text = lanes[i]->tokens();
    SuffixIndex& index = indices_[lanes[i]->request()];
    index.extend(text);
    const SuffixIndex::Match match = index.longest(text);
    if (match.length == 0) continue;
    drafts[i].grade = grade_of(match.length);
    std::vector<Token>& out = drafts[i].tokens;
    out.reserve(lengths[i]);
    // Past the end of the text the draft continues itself: a loop of any period is followed.
    for (std::size_t k = 0; k < lengths[i]; ++k) {
      const std::size_t from = match.next + k;
      out.push_back(from < text.size() ? text[from] : out[from - text.size()]);
    }
  }
  return drafts;
}

}  // namespace forerun
