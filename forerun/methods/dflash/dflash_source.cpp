#include "forerun/methods/dflash/dflash_source.h"

#include <ATen/core/Tensor.h>

#include <limits>
#include <vector>

namespace forerun {
namespace {

std::span<const float> row_at(const at::Tensor& rows, std::int64_t row) {
  return {rows.const_data_ptr<float>() + row * rows.size(1),
          static_cast<std::size_t>(rows.size(1))};
}

}  // namespace

void DFlashSource::query(std::span<const TokenSequence* const> sequences) {
  std::vector<DFlashTexts::Wanted> wanted;
  for (const TokenSequence* sequence : sequences) {
    wanted.push_back({.sequence = sequence, .drafts = static_cast<std::int64_t>(block())});
  }
  blocks_ = texts_.forward(wanted);
  first_.clear();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (blocks_.first[i] >= 0) first_[sequences[i]->id()] = blocks_.first[i];
  }
}

std::size_t DFlashSource::slots_of(const TokenSequence& sequence) {
  const auto found = first_.find(sequence.id());
  if (found == first_.end()) return 0;
  row_ = found->second;
  return block();
}

SlotCandidates DFlashSource::likeliest(std::size_t slot) const {
  const std::span<const float> logits =
      row_at(blocks_.rows.logits, row_ + static_cast<std::int64_t>(slot));
  if (!texts_.network().selects()) {
    return slot_candidates(logits, temperature(), bounds_of(logits));
  }
  SlotCandidates out{.ids = texts_.network().candidates(logits), .complete = true};
  for (const std::int32_t id : out.ids) out.logits.push_back(logits[static_cast<std::size_t>(id)]);
  out.rest = -std::numeric_limits<double>::infinity();  // nothing else can be drafted
  return out;
}

void DFlashSource::condition(std::size_t slot, Token previous,
                             std::span<const std::int32_t> columns, std::span<float> logits) const {
  texts_.network().condition(previous, blocks_.rows.state(row_ + static_cast<std::int64_t>(slot)),
                             columns, logits);
}

double DFlashSource::confidence(const Node& node, Token) const {
  const DFlashPasses& network = texts_.network();
  if (!network.has_confidence()) return 0.0;
  return network.confidence(
      row_at(blocks_.rows.hidden, row_ + static_cast<std::int64_t>(node.depth)), node.token);
}

}  // namespace forerun
