#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/growth_limit.h"
#include "forerun/core/hit_rates.h"
#include "forerun/core/token.h"
#include "forerun/core/token_rule.h"

namespace forerun {

/// A token that may follow a node of a tree.
struct TreeChild {
  Token token = 0;
  double probability = 0.0;          ///< that it is the output there, if the node is reached
  std::uint8_t source = 0;           ///< which source gave it,
  HitRates::Cell cell;               ///< and what its rate was learned from
  double first = 0.0, second = 0.0;  ///< the estimates that `probability` was made of (Agreement)
  double before = 0.0;  ///< the source's before the noise of the position was known (NoiseOdds),
  double noise = 0.0;   ///< and this noise; before 0: noise says nothing, or is the source's affair
};

/// A tree of drafted tokens, grown by falling probability of being reached: its first n nodes are
/// the best tree of n nodes for every n, if children's probabilities are right.
/// Source: DDTree, arXiv:2604.12989.
class TokenTree {
 public:
  static constexpr std::size_t kRoot = 0;  ///< the text so far; drafted nodes count from 1
  struct Node {
    Token token = 0;
    std::size_t parent = kRoot;
    std::size_t depth = 0;  ///< of the root 0
    double reach = 1.0;     ///< probability that the output follows the tree to here
    std::vector<TreeChild> children =
        {};  ///< candidates, by falling probability; in the tree or not
  };
  struct Limits {
    std::size_t nodes = 0, depth = 0;
    double least = 0.0;  ///< no node is reached with a smaller probability
  };

  TokenTree() : nodes_(1) {}
  /// @param expand  called with the tree and the index of its newest node, the root first, for each
  ///                node in turn (the last one may be left out): the
  ///                candidates that may follow it, in any order; of equal tokens the likelier
  ///                counts
  /// @param worth   may end the tree before `limits` do
  template <class Expand>
  static TokenTree grow(const Limits& limits, Expand&& expand, GrowthLimit worth = {}) {
    TokenTree tree;
    std::vector<Next> heap;
    if (limits.nodes > 0 && limits.depth > 0) tree.open(kRoot, expand(tree, kRoot), limits, heap);
    while (!heap.empty() && tree.size() < limits.nodes && worth.grow(heap.front().reach)) {
      const std::size_t node = tree.add(pop(heap), limits, heap);
      if (tree.size() == limits.nodes) break;
      const std::vector<TreeChild> children = expand(tree, node);
      if (tree.nodes_[node].depth < limits.depth) tree.open(node, children, limits, heap);
    }
    return tree;
  }

  /// Drafted nodes.
  std::size_t size() const noexcept { return nodes_.size() - 1; }
  const Node& node(std::size_t i) const noexcept { return nodes_[i]; }
  /// Probabilities of reaching the nodes 1, 2, ..., falling.
  std::vector<double> reaches() const;
  /// The first `n` nodes as a draft: the likeliest path first, then the others in order.
  TokenDraft draft(std::size_t n) const;
  /// Calls `judged(child, hit)` for each candidate of every node on the way of the `outputs`.
  template <class Judged>
  void judge(std::span<const Token> outputs, Judged&& judged) const {
    std::size_t at = kRoot;
    for (const Token output : outputs) {
      for (const TreeChild& child : nodes_[at].children) judged(child, child.token == output);
      if ((at = child_of(at, output)) == kRoot) return;
    }
  }
  /// The node of `token` below a node; the root if there is none.
  std::size_t child_of(std::size_t node, Token token) const noexcept;

 private:
  // A candidate that is not in the tree yet: number `rank` of its parent's.
  struct Next {
    double reach;
    std::size_t parent, rank;
  };
  static bool later(const Next& a, const Next& b) noexcept;
  static Next pop(std::vector<Next>& heap);
  static void push(Next next, std::vector<Next>& heap);
  void open(std::size_t node, std::span<const TreeChild> children, const Limits& limits,
            std::vector<Next>& heap);
  std::size_t add(const Next& next, const Limits& limits, std::vector<Next>& heap);
  void offer(std::size_t parent, std::size_t rank, const Limits& limits,
             std::vector<Next>& heap) const;

  std::vector<Node> nodes_;
};

}  // namespace forerun
