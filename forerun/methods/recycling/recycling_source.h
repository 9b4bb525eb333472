#pragma once

#include <any>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/methods/recycling/successors.h"
#include "forerun/methods/tree/tree_source.h"

namespace forerun {

/// The target's own predictions after the same last tokens, at an earlier place of this text or of
/// others: every row of a pass, of a kept draft or not, is a prediction that is kept. Rows that a
/// greedy text does not reach have the first logits of the vocabulary alone. No model.
/// Source: Token Recycling, Luo et al. 2024, arXiv:2408.08696; here with up to three tokens of
/// context, and candidates ranked by how often such ones were right instead of a fixed tree.
class RecyclingSource final : public TreeSource {
 public:
  HitRates rates() const override;
  void remember(std::any& memory) override;
  bool begin(const TokenSequence& sequence) override;
  void add(std::size_t parent, Token token) override;
  void children(std::vector<TreeChild>& out) override;
  std::int64_t unreached_logits() const override;
  void observe(const VerifiedDraft& verified) override;
  void forget(SequenceId) override {}

 private:
  // The last tokens of the path to a node, the newest last.
  using Context = std::array<Token, Successors::kOrders>;
  struct Node {
    Context context{};
    std::size_t known = 0;  // tokens of it
    std::span<const Token> tokens() const { return std::span<const Token>(context).last(known); }
  };
  static Node node_of(std::span<const Token> text);
  static Node below(const Node& parent, Token token);
  static std::vector<Successors::Prediction> predictions_of(const VerifiedDraft& verified);

  std::any own_;
  Successors* successors_ = nullptr;
  std::vector<Node> nodes_;  // of the tree that grows
  double frequent_ = 1.0;    // share of predicted tokens that lie among the first of the vocabulary
};

}  // namespace forerun
