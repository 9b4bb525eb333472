#include "forerun/methods/medusa/medusa_source.h"

namespace forerun {
namespace {

// The token before a position changes little here: of 8,192 tokens as many outputs come of 128 as
// of 256, which take a third longer to find.
constexpr SlotCandidates::Bounds kShortlist{128, 12.0F};

}  // namespace

NetworkSource::State MedusaSource::state(const TokenSequence& sequence) const {
  const auto found = last_.find(sequence.id());
  const auto before_newest = static_cast<std::int64_t>(sequence.tokens().size()) - 2;
  return {.ready = found != last_.end() && found->second.at == before_newest};
}

void MedusaSource::keep(const TokenSequence& sequence, const HiddenStates& states,
                        std::int64_t end) {
  const std::int64_t row = end - 1 - states.first, width = state_width();
  if (row < 0 || row >= states.count) return;
  Last& last = last_[sequence.id()];
  last.at = end - 1;
  last.states.assign(states.rows + row * width, states.rows + (row + 1) * width);
}

void MedusaSource::query(std::span<const TokenSequence* const> sequences) {
  inputs_.clear();
  first_.clear();
  logits_ = at::Tensor();  // its memory is that of the next
  for (const TokenSequence* sequence : sequences) {
    first_[sequence->id()] = static_cast<std::int64_t>(inputs_.size() * heads());
    inputs_.push_back(
        {.features = last_.at(sequence->id()).states.data(), .newest = sequence->tokens().back()});
  }
  if (!inputs_.empty()) logits_ = network_->forward(inputs_);
}

std::size_t MedusaSource::slots_of(const TokenSequence& sequence) {
  const auto found = first_.find(sequence.id());
  if (found == first_.end()) return 0;
  row_ = found->second;
  return heads();
}

SlotCandidates MedusaSource::likeliest(std::size_t slot) const {
  const std::int64_t columns = logits_.size(1);
  const std::span<const float> logits(
      logits_.const_data_ptr<float>() + (row_ + static_cast<std::int64_t>(slot)) * columns,
      static_cast<std::size_t>(columns));
  return slot_candidates(logits, temperature(),
                         conditioned() ? kShortlist : SlotCandidates::kDrafted);
}

}  // namespace forerun
