#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// Drafts of one sequence that were cut short, waiting for the text to reach what was cut: each
/// later output tells whether the draft would have been kept there, at no cost. For point masses
/// only, which are kept exactly if they equal the output; a sampled draft may be kept with another
/// probability than that.
class CounterfactualAcceptance {
 public:
  /// Compares what is behind the first `agreed` tokens of `draft`, all of which became outputs,
  /// with the `outputs` behind those, and remembers the rest. Of more than 8 drafts the oldest is
  /// given up.
  template <class Score>
  void add(std::size_t confidence_bin, std::span<const Token> draft, std::size_t agreed,
           std::span<const Token> outputs, Score&& score) {
    if (agreed < draft.size()) compare(slot(confidence_bin, draft, agreed), outputs, score);
  }
  /// Compares every draft with the next `outputs`; `score(confidence_bin, position, kept)` is
  /// called for each position examined, that is one with all before it kept.
  template <class Score>
  void advance(std::span<const Token> outputs, Score&& score) {
    for (Waiting& draft : waiting_) compare(draft, outputs, score);
  }

 private:
  static constexpr std::size_t kMost = 8;
  struct Waiting {
    std::vector<Token> tokens;
    std::size_t confidence_bin = 0;
    std::size_t next = 0;  ///< position of the next output; tokens.size() once settled
    std::uint64_t added = 0;
  };

  template <class Score>
  static void compare(Waiting& draft, std::span<const Token> outputs, Score& score) {
    for (const Token output : outputs) {
      if (draft.next >= draft.tokens.size()) return;
      const bool kept = draft.tokens[draft.next] == output;
      score(draft.confidence_bin, draft.next, kept);
      draft.next = kept ? draft.next + 1 : draft.tokens.size();
    }
  }

  Waiting& slot(std::size_t confidence_bin, std::span<const Token> draft, std::size_t agreed);

  std::vector<Waiting> waiting_;  // settled ones are filled again
  std::uint64_t added_ = 0;
};

}  // namespace forerun
