#include "forerun/methods/lookup/lookup.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace forerun {
namespace {

// 2, 3, 4 to 5, 6 to 9, ... matching tokens.
std::uint8_t confidence_bin_of(std::size_t match, std::size_t lowest) {
  const auto length =
      match < 4 ? (match < 3 ? 0U : 1U) : static_cast<std::size_t>(std::bit_width(match - 2));
  return static_cast<std::uint8_t>(std::min(kConfidenceBins - 1, lowest + length));
}

}  // namespace

TokenDraft LookupDrafter::find(const TokenSequence& sequence, std::size_t most) {
  TokenDraft draft;
  const auto text = sequence.tokens();
  SuffixIndex& index = indices_[sequence.id()];
  index.extend(text);
  const SuffixIndex::Match match = index.longest(text);
  if (match.length == 0) return draft;
  draft.confidence_bin = confidence_bin_of(match.length, lowest_);
  std::vector<Token>& out = draft.tokens;
  out.reserve(most);
  // Past the end of the text the draft continues itself, so a loop of any period is followed.
  for (std::size_t k = 0; k < most; ++k) {
    const std::size_t from = match.next + k;
    out.push_back(from < text.size() ? text[from] : out[from - text.size()]);
  }
  return draft;
}

std::vector<SequencePlan> LookupDrafter::plan(std::span<TokenSequence* const> sequences,
                                              std::span<const std::size_t> most,
                                              const DraftLength&) {
  std::vector<TokenDraft> drafts;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    drafts.push_back(find(*sequences[i], most[i]));
  }
  return found_.plan(sequences, std::move(drafts));
}

}  // namespace forerun
