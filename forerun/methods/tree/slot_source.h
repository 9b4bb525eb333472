#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/online_ngram.h"
#include "forerun/core/sequence_id.h"
#include "forerun/methods/tree/slot_candidates.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// A network that gives laws for several slots in one run: the likeliest tokens of each slot, for
/// trees. A node of depth d - 1, whoever drafted it, is followed by the tokens of slot d. Under
/// shared noise they are ranked by log q + g, with the noise that will decide the output.
/// Source: DDTree, arXiv:2604.12989. What the text itself has had after the same two tokens is
/// mixed into the laws: a network of few layers does not keep it.
class SlotSource : public NetworkSource {
 public:
  HitRates rates() const override;
  bool begin(const TokenSequence& sequence) final;
  void add(std::size_t parent, Token token) final;
  void children(std::vector<TreeChild>& out) final;
  bool knows_noise() const override { return true; }
  /// The slots of a run.
  std::size_t made() const override = 0;
  void forget(SequenceId id) override { trigrams_.erase(id); }
  void alone() final { alone_ = true; }

 protected:
  /// Slots that the run of this round made for a sequence; 0: none.
  virtual std::size_t slots_of(const TokenSequence& sequence) = 0;
  /// The likeliest tokens of a slot of the sequence that `slots_of` was asked of last, `bounds_of`
  /// its row.
  virtual SlotCandidates likeliest(std::size_t slot) const = 0;
  /// Whether finding them takes time, and any threads may find those of several slots at once.
  virtual bool abreast() const { return true; }
  SlotCandidates::Bounds bounds_of(std::span<const float> row) const {
    return SlotCandidates::bounds_of(row.size(), conditioned());
  }
  /// The text's, 1 if it is greedy.
  static double temperature_of(const TokenSequence& sequence);
  double temperature() const { return temperature_of(*sequence_); }
  /// The token of a column of the logits.
  virtual Token token(std::int32_t column) const { return column; }
  /// Whether a slot's logits change with the token before it; then `condition` changes some
  /// columns' logits.
  virtual bool conditioned() const { return false; }
  virtual void condition(std::size_t /*slot*/, Token /*previous*/,
                         std::span<const std::int32_t> /*columns*/,
                         std::span<float> /*logits*/) const {}

  struct Node {
    Token token = 0;
    std::size_t parent = 0, depth = 0;
    bool likeliest = true;  ///< on the path of the network's own first choices
    Token first = -1;       ///< its first choice after the node
  };
  /// A candidate after a node.
  struct Ranked {
    Token token;
    double q;            ///< its probability
    double score = 0.0;  ///< the same without noise; with it how likely it is the first choice
  };
  /// Whether the slots' laws hold after a node.
  virtual bool knows(const Node& /*node*/) const { return true; }
  /// Changes the candidates' q by what else is known of the token after a node, and may add
  /// candidates: here by the text's trigrams.
  virtual void weigh(const Node& node, std::vector<Ranked>& candidates);
  /// Gives the candidates other weights, scaled so that all together weigh what they did.
  static void reweigh(std::vector<Ranked>& candidates, std::span<const double> weights);
  /// The token that a search through all slots has after a node: the first choice there.
  virtual std::optional<Token> preferred(const Node& /*node*/) const { return {}; }
  /// The network's estimate that its first choice after a node is kept, in [0, 1].
  virtual double confidence(const Node& /*node*/, Token /*first*/) const { return 0.0; }

  /// Adds what the text had after the same tokens, if no other source drafts beside this one: q is
  /// 0 where the network does not know a token, or finds it too unlikely.
  void add_followers(const Node& node, std::vector<Ranked>& candidates);
  /// The token before a node's, of the text or its path; NgramLaw::kNoToken where the text begins.
  Token before(const Node& node) const;
  /// Trigrams of the text so far.
  virtual const OnlineNgram& trigrams();
  /// Whose tree grows.
  const TokenSequence& sequence() const noexcept { return *sequence_; }
  /// Drafted tokens on the way to a node, its own last.
  std::vector<Token> path_to(const Node& node) const;
  /// The candidates of a slot in order, of a network that conditions nothing, before `weigh`.
  std::vector<Ranked> candidates(std::size_t slot, std::size_t most);

 private:
  void find_likeliest();
  void open(std::size_t depth, Token previous);
  std::vector<Ranked> ranked(const Node& node);
  std::vector<Ranked> laws(std::size_t slot, Token previous);
  void put_in_order(std::vector<Ranked>& candidates, std::size_t slot, std::size_t most) const;
  void add_noise(std::size_t slot, std::vector<Ranked>& candidates) const;
  void cut(std::vector<Ranked>& by_q) const;

  const TokenSequence* sequence_ = nullptr;  // whose tree grows
  bool alone_ = false;
  std::unordered_map<SequenceId, OnlineNgram> trigrams_;
  std::size_t block_ = 0;
  std::vector<SlotCandidates> found_;  // of every slot, where several threads have found them
  struct Slot {
    SlotCandidates likeliest;  // their logits are not conditioned
    std::vector<Ranked> laws;  // of a network that conditions nothing; empty until they are asked
  };
  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
};

}  // namespace forerun
