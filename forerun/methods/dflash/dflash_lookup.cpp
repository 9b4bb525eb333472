#include "forerun/methods/dflash/dflash_lookup.h"

#include <utility>

namespace forerun {
namespace {

constexpr std::size_t kLongMatch = 4;  // confidence_bin: from 6 tokens on

}  // namespace

std::vector<SequencePlan> DFlashLookupDrafter::plan(std::span<TokenSequence* const> sequences,
                                                    std::span<const std::size_t> most,
                                                    const DraftLength& control) {
  std::vector<SequencePlan> plans = lookup_.plan(sequences, most, control);
  const std::vector<SequencePlan> blocks = block_.plan(sequences, most, control);
  looks_up_.assign(sequences.size(), false);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    SequencePlan& plan = plans[i];
    const auto better = [&] {
      // A fixed length promises the text: nothing may depend on times, or on other texts.
      if (!control.adaptive()) return plan.confidence_bin >= kLongMatch;
      // If neither pays, the block is the one to probe: matches are judged without being used.
      return control.best_throughput(plan) > control.best_throughput(blocks[i]);
    };
    looks_up_[i] = plan.limit > 0 && (blocks[i].limit == 0 || better());
    if (!looks_up_[i]) plan = blocks[i];
  }
  return plans;
}

std::vector<TokenDraft> DFlashLookupDrafter::propose(std::span<TokenSequence* const> sequences,
                                                     std::span<const std::size_t> lengths) {
  std::vector<std::size_t> blocks(lengths.begin(), lengths.end());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (looks_up_[i]) blocks[i] = 0;
  }
  std::vector<TokenDraft> drafts = block_.propose(sequences, blocks);
  std::vector<TokenDraft> found = lookup_.propose(sequences, lengths);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (looks_up_[i]) drafts[i] = std::move(found[i]);
  }
  return drafts;
}

}  // namespace forerun
