#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/text/companion_rows.h"

namespace forerun {

/// The window of one text: guesses of the next `columns` tokens, at `ngram` - 1 levels. The entry
/// of level l and column i stands for the token l + i positions after the text's newest one, which
/// is the entry (0, 0). It follows the entry below it in its column, an entry of level 0 the one
/// before it; a level is what the target predicted at the level below a round before. So a column
/// and the prediction at its top are an n-gram: a trajectory of Jacobi decoding.
/// Source: Fu et al. 2024, arXiv:2402.02057, section 3.2.
class LookaheadWindow {
 public:
  LookaheadWindow(std::size_t columns, std::size_t ngram) : columns_(columns), levels_(ngram - 1) {}

  /// Rows of the full window, the newest token's own not counted.
  std::size_t most_rows() const noexcept { return columns_ * levels_ - 1; }
  /// Adds its rows after the text's newest token; logits of the top level are asked for, at level 0
  /// without those of the newest token.
  void add_rows(std::span<const Token> text, const TokenDraft& draft, CompanionRows& rows);
  /// Whether the top level is level 0: then the target's prediction after the newest token itself
  /// belongs to column 0.
  bool flat() const noexcept { return entries_.size() == 1; }

  using EachNgram = std::function<void(Token key, std::span<const Token> next)>;
  /// The rows ran: takes what the target predicts after each entry of the top level, tells the
  /// n-grams, and goes on to the end of the text.
  /// @param predicted  [columns]
  /// @param emitted    outputs of the round
  void take(std::span<const Token> predicted, std::span<const Token> text, std::size_t emitted,
            const EachNgram& each);
  /// The rows did not run.
  void skip(std::span<const Token> text, std::size_t emitted);

 private:
  Token guess(std::span<const Token> text) noexcept;
  void drop(std::size_t columns, std::span<const Token> text);

  std::size_t columns_, levels_;
  std::vector<std::vector<Token>> entries_;  // by level, those that are filled; [columns] each
  std::uint64_t guesses_ = 0;
};

}  // namespace forerun
