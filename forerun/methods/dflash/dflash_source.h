#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "forerun/methods/dflash/dflash_texts.h"
#include "forerun/methods/tree/slot_source.h"

namespace forerun {

/// The slots of a DFlash block, for trees; given a node's own token if the network has a Markov
/// head or a selector. Markov and confidence heads: DSpark, arXiv:2607.05147; selector: DFlash 2.
class DFlashSource final : public SlotSource {
 public:
  explicit DFlashSource(std::shared_ptr<const DFlashPasses> network) : texts_(std::move(network)) {}

  void forget(SequenceId id) override {
    SlotSource::forget(id);
    texts_.forget(id);
  }
  std::size_t made() const override { return block(); }
  State state(const TokenSequence& sequence) const override {
    return {.ready = texts_.known(sequence.id()), .unread = texts_.unread(sequence.id())};
  }
  void query(std::span<const TokenSequence* const> sequences) override;
  Prefilled prefilled() const override { return texts_.prefilled(); }

  std::span<const std::int64_t> features() const override {
    return texts_.network().config().feature_layers;
  }
  std::int64_t state_width() const override { return texts_.width(); }
  void read(const TokenSequence& sequence, const HiddenStates& states) override {
    texts_.read(sequence, states);
  }
  void observe_states(const TokenSequence& sequence, const HiddenStates& states) override {
    texts_.observe(sequence, states);
  }
  bool share(SequenceId from, SequenceId to, std::int64_t positions) override {
    return texts_.share(from, to, positions);
  }

 private:
  std::size_t block() const { return static_cast<std::size_t>(texts_.network().config().drafts()); }
  std::size_t slots_of(const TokenSequence& sequence) override;
  SlotCandidates likeliest(std::size_t slot) const override;
  Token token(std::int32_t column) const override { return texts_.network().token(column); }
  bool conditioned() const override { return texts_.network().conditioned(); }
  void condition(std::size_t slot, Token previous, std::span<const std::int32_t> columns,
                 std::span<float> logits) const override;
  double confidence(const Node& node, Token first) const override;

  DFlashTexts texts_;
  DFlashTexts::Blocks blocks_;
  std::unordered_map<SequenceId, std::int64_t> first_;  // row of each block of the round
  std::int64_t row_ = 0;                                // of the sequence whose tree grows
};

}  // namespace forerun
