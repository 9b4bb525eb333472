#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/methods/tree/slot_candidates.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// A network that gives laws for several slots in one run: the likeliest tokens of each slot, for
/// trees. A node of depth d - 1, whoever drafted it, is followed by the tokens of slot d. Under
/// shared noise they are ranked by log q + g, with the noise that will decide the output.
/// Source: DDTree, arXiv:2604.12989.
class SlotSource : public NetworkSource {
 public:
  HitRates rates() const override;
  bool begin(const TokenSequence& sequence) final;
  void add(std::size_t parent, Token token) final;
  void children(std::vector<TreeChild>& out) final;
  /// The slots of a run.
  std::size_t made() const override = 0;

 protected:
  /// Slots that the run of this round made for a sequence; 0: none.
  virtual std::size_t slots_of(const TokenSequence& sequence) = 0;
  /// [vocab] float32, of a slot of the sequence that `slots_of` was asked of last.
  virtual std::span<const float> logits(std::size_t slot) const = 0;
  /// The token of a column of the logits.
  virtual Token token(std::int32_t column) const { return column; }
  /// Whether a slot's logits change with the token before it; then `condition` changes them.
  virtual bool conditioned() const { return false; }
  virtual void condition(Token /*previous*/, std::span<float> /*row*/) const {}
  /// The same for some columns.
  virtual void condition(Token /*previous*/, std::span<const std::int32_t> /*columns*/,
                         std::span<float> /*logits*/) const {}
  /// The network's estimate that its first choice after a node of this depth is kept, in [0, 1].
  virtual double confidence(std::size_t /*depth*/, Token /*token*/) const { return 0.0; }

 private:
  // The candidates of one slot.
  struct Slot {
    SlotCandidates candidates;
    std::vector<float> logits;  // theirs, not conditioned
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
  double temperature() const;
  void open(std::size_t depth, Token previous);
  std::vector<Ranked> ranked(const Node& node) const;
  std::vector<Ranked> laws(const Node& node) const;
  void add_noise(const Node& node, std::vector<Ranked>& by_q) const;
  void cut(std::vector<Ranked>& by_q) const;

  const TokenSequence* sequence_ = nullptr;  // whose tree grows
  std::size_t block_ = 0;
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
};

}  // namespace forerun
