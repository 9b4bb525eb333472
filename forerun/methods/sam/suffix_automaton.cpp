#include "forerun/methods/sam/suffix_automaton.h"

#include <algorithm>

namespace forerun {

SuffixAutomaton::State SuffixAutomaton::next(State state, Token token) const {
  const auto found = edges_.find(edge(state, token));
  return found == edges_.end() ? kNone : found->second;
}

void SuffixAutomaton::connect(State from, Token token, State to) {
  const auto [at, fresh] = edges_.insert_or_assign(edge(from, token), to);
  if (fresh) node(from).followers.push_back(token);
}

// The edge to `to` is one of its shorter substrings: these become a class of their own.
SuffixAutomaton::State SuffixAutomaton::split(State from, Token token, State to) {
  const auto clone = static_cast<State>(states_.size());
  Node copy = node(to);
  copy.length = node(from).length + 1;
  states_.push_back(std::move(copy));
  for (const Token follower : states_.back().followers) {
    edges_[edge(clone, follower)] = edges_.at(edge(to, follower));
  }
  node(to).link = clone;
  for (State p = from; p != kNone && next(p, token) == to; p = node(p).link) {
    edges_[edge(p, token)] = clone;
  }
  return clone;
}

void SuffixAutomaton::add(Token token) {
  const auto current = static_cast<State>(states_.size());
  states_.push_back({.length = ++length_, .link = kRoot, .count = 0, .followers = {}});
  State p = last_;
  while (p != kNone && next(p, token) == kNone) {
    connect(p, token, current);
    p = node(p).link;
  }
  if (p != kNone) {
    const State to = next(p, token);
    const bool whole = node(to).length == node(p).length + 1;
    const State link = whole ? to : split(p, token, to);
    node(current).link = link;
  }
  last_ = current;
  std::size_t counted = 0;
  for (State s = current; s != kRoot && counted < kCounted; s = node(s).link, ++counted) {
    ++node(s).count;
  }
}

void SuffixAutomaton::extend(std::span<const Token> text) {
  for (std::size_t i = length_; i < text.size(); ++i) add(text[i]);
}

SuffixAutomaton::Match SuffixAutomaton::repeated() const noexcept {
  if (last_ == kRoot) return {};
  const State link = node(last_).link;
  return {link, node(link).length};
}

SuffixAutomaton::Match SuffixAutomaton::shorter(const Match& match) const noexcept {
  if (match.state == kRoot) return {};
  const State link = node(match.state).link;
  return {link, node(link).length};
}

SuffixAutomaton::Match SuffixAutomaton::step(Match match, Token token) const {
  while (next(match.state, token) == kNone) {
    if (match.state == kRoot) return {};
    match = shorter(match);
  }
  return {next(match.state, token), match.length + 1};
}

}  // namespace forerun
