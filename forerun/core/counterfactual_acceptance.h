#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forerun/core/token.h"

namespace forerun {

/// Drafts of one sequence that were cut, until the text reaches the cut part: each later output
/// shows at no cost whether the draft would have been kept there. For point masses only, which are
/// kept exactly if they equal the output; the acceptance of a sampled draft has another
/// probability.
class CounterfactualAcceptance {
 public:
  /// Compares `draft` after its first `agreed` tokens, all of which became outputs, with the
  /// `outputs` after those, and stores the rest. It stores at most 8 drafts and drops the oldest.
  template <class Score>
  void add(std::size_t confidence_bin, std::span<const Token> draft, std::size_t agreed,
           std::span<const Token> outputs, Score&& score) {
    if (agreed < draft.size()) compare(slot(confidence_bin, draft, agreed), outputs, score);
  }
  /// Compares every draft with the next `outputs`. `score(confidence_bin, position, kept)` is
  /// called for each examined position, that is one with all previous positions kept.
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

  std::vector<Waiting> waiting_;  // settled entries are reused
  std::uint64_t added_ = 0;
};

}  // namespace forerun
