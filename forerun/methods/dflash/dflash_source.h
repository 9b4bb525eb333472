#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/methods/dflash/dflash_texts.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// The likeliest tokens of each slot of a block, for trees: a node of depth d - 1, whoever drafted
/// it, is followed by the tokens of slot d, given its own token if the network has a Markov head.
/// Under shared noise they are ranked by log q + g, with the noise that will decide the output.
/// Source: DDTree, arXiv:2604.12989; Markov and confidence heads: DSpark, arXiv:2607.05147.
class DFlashSource final : public NetworkSource {
 public:
  explicit DFlashSource(std::shared_ptr<const DFlashPasses> network) : texts_(std::move(network)) {}

  HitRates rates() const override;
  bool begin(const TokenSequence& sequence) override;
  void add(std::size_t parent, Token token) override;
  void children(std::vector<TreeChild>& out) override;
  void forget(SequenceId id) override { texts_.forget(id); }

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
  // The candidates of one slot.
  struct Slot {
    std::vector<std::int32_t> ids;  // of the draft vocabulary
    std::vector<float> logits;      // theirs, without the Markov head
    double rest = 0.0;              // log of the sum of exp(logit) of all others
  };
  struct Node {
    Token token = 0;
    std::size_t depth = 0;
    bool likeliest = true;  // on the path of the network's own first choices
    Token first = -1;       // its first choice after the node
  };
  // Candidates after a node, in order.
  struct Ranked {
    std::int32_t id;
    double log_q, score;
    bool without_noise = false;  // first by log_q, if the score has noise in it
  };
  std::size_t block() const { return static_cast<std::size_t>(texts_.network().config().drafts()); }
  double temperature() const;
  void open(std::size_t depth, Token previous);
  std::vector<Ranked> ranked(const Node& node);
  void cut(std::vector<Ranked>& by_q) const;
  std::size_t confidence_bin(const Node& node) const;

  DFlashTexts texts_;
  DFlashTexts::Blocks blocks_;
  std::unordered_map<SequenceId, std::int64_t> first_;  // row of each block of the round
  const TokenSequence* sequence_ = nullptr;             // whose tree grows
  std::int64_t row_ = 0;
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
};

}  // namespace forerun
