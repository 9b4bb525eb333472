#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// The suffix automaton of a text that grows: a state for every class of substrings that end at the
/// same places. Memory and time are linear in the text, whatever it repeats.
/// Source: Blumer et al. 1985, in the form of SAM-Decoding, Hu et al. 2024, arXiv:2411.10666.
class SuffixAutomaton {
 public:
  using State = std::int32_t;
  static constexpr State kRoot = 0;  ///< of the empty substring
  static constexpr State kNone = -1;

  /// A substring: the last `length` tokens of something, which lead to `state`.
  struct Match {
    State state = kRoot;
    std::size_t length = 0;
  };

  SuffixAutomaton() : states_(1) {}
  /// Reads the tokens after the known ones; `text` grows, its known part unchanged.
  void extend(std::span<const Token> text);
  std::size_t size() const noexcept { return length_; }  ///< tokens read

  /// The longest end of the text that occurs earlier too.
  Match repeated() const noexcept;
  /// The longest end of `match` and `token` that occurs in the text.
  Match step(Match match, Token token) const;
  /// The next shorter end that occurs at more places; of length 0 at last.
  Match shorter(const Match& match) const noexcept;
  /// The tokens that follow the substrings of a state, in the order in which they were seen first.
  std::span<const Token> followers(State state) const noexcept {
    return states_[static_cast<std::size_t>(state)].followers;
  }
  State next(State state, Token token) const;
  /// Places where the substrings of a state end, counted in the newest kCounted classes of every
  /// place: exact unless more classes than that end there, as in a loop.
  std::uint32_t occurrences(State state) const noexcept {
    return states_[static_cast<std::size_t>(state)].count;
  }
  static constexpr std::size_t kCounted = 32;

 private:
  struct Node {
    std::size_t length = 0;  // of its longest substring
    State link = kNone;      // the class of its longest end of another class
    std::uint32_t count = 0;
    std::vector<Token> followers;
  };
  static std::uint64_t edge(State state, Token token) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(state)) << 32U |
           static_cast<std::uint32_t>(token);
  }
  Node& node(State state) { return states_[static_cast<std::size_t>(state)]; }
  const Node& node(State state) const { return states_[static_cast<std::size_t>(state)]; }
  void add(Token token);
  void connect(State from, Token token, State to);
  State split(State from, Token token, State to);

  std::vector<Node> states_;
  std::unordered_map<std::uint64_t, State> edges_;
  State last_ = kRoot;
  std::size_t length_ = 0;
};

}  // namespace forerun
