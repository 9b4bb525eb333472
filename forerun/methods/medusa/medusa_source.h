#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "forerun/methods/tree/slot_source.h"
#include "forerun/models/medusa/medusa_passes.h"

namespace forerun {

/// The heads of a Medusa network, for trees: head k for the nodes of depth k, given a node's own
/// token if the network has a Markov head. Of a text's states it keeps those of the last position
/// that the target has read.
class MedusaSource final : public SlotSource {
 public:
  explicit MedusaSource(std::shared_ptr<const MedusaPasses> network)
      : network_(std::move(network)) {}

  void forget(SequenceId id) override {
    SlotSource::forget(id);
    last_.erase(id);
  }
  std::size_t made() const override { return heads(); }
  State state(const TokenSequence& sequence) const override;
  void query(std::span<const TokenSequence* const> sequences) override;

  std::span<const std::int64_t> features() const override {
    return network_->config().feature_layers;
  }
  bool reads_whole_text() const override { return false; }
  std::int64_t state_width() const override { return network_->config().feature_width(); }
  void read(const TokenSequence& sequence, const HiddenStates& states) override {
    keep(sequence, states, states.first + states.count);
  }
  void observe_states(const TokenSequence& sequence, const HiddenStates& states) override {
    // The newest token has not been read by the target.
    keep(sequence, states, static_cast<std::int64_t>(sequence.tokens().size()) - 1);
  }

 private:
  // The states at a text's position `at`.
  struct Last {
    std::int64_t at = -1;
    std::vector<float> states;
  };
  std::size_t heads() const { return static_cast<std::size_t>(network_->config().heads); }
  void keep(const TokenSequence& sequence, const HiddenStates& states, std::int64_t end);
  std::size_t slots_of(const TokenSequence& sequence) override;
  SlotCandidates likeliest(std::size_t slot) const override;
  Token token(std::int32_t column) const override { return network_->token(column); }
  bool conditioned() const override { return network_->conditioned(); }
  void condition(std::size_t /*slot*/, Token previous, std::span<const std::int32_t> columns,
                 std::span<float> logits) const override {
    network_->condition(previous, columns, logits);
  }

  std::shared_ptr<const MedusaPasses> network_;
  std::vector<MedusaInput> inputs_;  // of the round
  std::unordered_map<SequenceId, Last> last_;
  at::Tensor logits_;                                   // of the round
  std::unordered_map<SequenceId, std::int64_t> first_;  // of the round: row of each text's heads
  std::int64_t row_ = 0;                                // of the sequence whose tree grows
};

}  // namespace forerun
