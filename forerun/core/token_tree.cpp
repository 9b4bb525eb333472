#include "forerun/core/token_tree.h"

#include <algorithm>
#include <numeric>

namespace forerun {

TokenTree::Next TokenTree::pop(std::vector<Next>& heap) {
  std::pop_heap(heap.begin(), heap.end(), later);
  const Next best = heap.back();
  heap.pop_back();
  return best;
}

void TokenTree::push(Next next, std::vector<Next>& heap) {
  heap.push_back(next);
  std::push_heap(heap.begin(), heap.end(), later);
}

bool TokenTree::later(const Next& a, const Next& b) noexcept {
  if (a.reach != b.reach) return a.reach < b.reach;
  return a.parent != b.parent ? a.parent > b.parent : a.rank > b.rank;
}

void TokenTree::offer(std::size_t parent, std::size_t rank, const Limits& limits,
                      std::vector<Next>& heap) const {
  const Node& node = nodes_[parent];
  if (rank >= node.children.size()) return;
  const double reach = node.reach * node.children[rank].probability;
  if (reach >= limits.least) push({reach, parent, rank}, heap);
}

void TokenTree::open(std::size_t node, std::span<const TreeChild> children, const Limits& limits,
                     std::vector<Next>& heap) {
  // Indices are sorted, not candidates: these are large.
  std::vector<std::uint32_t> order(children.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t i, std::uint32_t j) {
    const TreeChild &a = children[i], &b = children[j];
    if (a.probability != b.probability) return a.probability > b.probability;
    return a.token != b.token ? a.token < b.token : i < j;
  });
  std::vector<TreeChild>& distinct = nodes_[node].children;
  std::vector<Token> tokens;
  distinct.reserve(order.size());
  tokens.reserve(order.size());
  for (const std::uint32_t i : order) {
    const Token token = children[i].token;
    if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) continue;
    tokens.push_back(token);
    distinct.push_back(children[i]);
  }
  offer(node, 0, limits, heap);
}

std::size_t TokenTree::add(const Next& next, const Limits& limits, std::vector<Next>& heap) {
  const Node& parent = nodes_[next.parent];
  nodes_.push_back({.token = parent.children[next.rank].token,
                    .parent = next.parent,
                    .depth = parent.depth + 1,
                    .reach = next.reach});
  offer(next.parent, next.rank + 1, limits, heap);
  return nodes_.size() - 1;
}

std::vector<double> TokenTree::reaches() const {
  std::vector<double> out;
  for (std::size_t i = 1; i < nodes_.size(); ++i) out.push_back(nodes_[i].reach);
  return out;
}

std::size_t TokenTree::child_of(std::size_t node, Token token) const noexcept {
  for (std::size_t i = node + 1; i < nodes_.size(); ++i) {
    if (nodes_[i].parent == node && nodes_[i].token == token) return i;
  }
  return kRoot;
}

TokenDraft TokenTree::draft(std::size_t n) const {
  n = std::min(n, size());
  // The first child of a node that was grown is its likeliest: rows of a path that is kept from the
  // start on need not be moved.
  std::vector<std::size_t> order;
  std::vector<std::int32_t> row_of(n + 1, -1);
  const auto take = [&](std::size_t node) {
    row_of[node] = static_cast<std::int32_t>(order.size());
    order.push_back(node);
  };
  std::size_t end = kRoot;
  for (std::size_t i = 1; i <= n; ++i) {
    if (nodes_[i].parent != end) continue;
    take(i);
    end = i;
  }
  const std::size_t path = order.size();
  for (std::size_t i = 1; i <= n; ++i) {
    if (row_of[i] < 0) take(i);
  }
  TokenDraft draft;
  for (const std::size_t node : order) {
    draft.tokens.push_back(nodes_[node].token);
    if (path < n) draft.parents.push_back(row_of[nodes_[node].parent]);
  }
  return draft;
}

}  // namespace forerun
