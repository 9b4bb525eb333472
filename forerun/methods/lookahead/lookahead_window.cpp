#include "forerun/methods/lookahead/lookahead_window.h"

#include <algorithm>
#include <utility>

namespace forerun {

// A token of the text, at random: a function of the text's length and of how many were taken.
Token LookaheadWindow::guess(std::span<const Token> text) noexcept {
  std::uint64_t h = (text.size() << 20U) + ++guesses_;  // SplitMix64
  h = (h ^ (h >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  h = (h ^ (h >> 27U)) * 0x94d049bb133111ebULL;
  return text[(h ^ (h >> 31U)) % text.size()];
}

void LookaheadWindow::add_rows(std::span<const Token> text, const TokenDraft& draft,
                               CompanionRows& rows) {
  if (entries_.empty()) {
    entries_.emplace_back(columns_);
    for (Token& token : entries_[0]) token = guess(text);
  }
  entries_[0][0] = text.back();
  const auto drafted = static_cast<std::int32_t>(draft.size());
  std::vector<std::int32_t> below(columns_, -1);  // row of each column, as a parent
  for (std::size_t level = 0; level < entries_.size(); ++level) {
    const bool top = level + 1 == entries_.size();
    for (std::size_t i = level == 0 ? 1 : 0; i < columns_; ++i) {
      const std::int32_t parent = level == 0 ? below[i - 1] : below[i];
      const std::int32_t row = rows.add(entries_[level][i], parent);
      below[i] = drafted + row;
      if (top) rows.scored.push_back(row);
    }
  }
}

// Removes the first columns; new ones hold guesses.
void LookaheadWindow::drop(std::size_t columns, std::span<const Token> text) {
  columns = std::min(columns, columns_);
  for (std::vector<Token>& level : entries_) {
    std::rotate(level.begin(), level.begin() + static_cast<std::ptrdiff_t>(columns), level.end());
    for (std::size_t i = columns_ - columns; i < columns_; ++i) level[i] = guess(text);
  }
}

void LookaheadWindow::take(std::span<const Token> predicted, std::span<const Token> text,
                           std::size_t emitted, const EachNgram& each) {
  entries_.emplace_back(predicted.begin(), predicted.end());
  if (entries_.size() <= levels_) return drop(emitted, text);
  std::vector<Token> next;
  for (std::size_t i = 0; i < columns_; ++i) {
    next.clear();
    for (std::size_t level = 1; level < entries_.size(); ++level) {
      next.push_back(entries_[level][i]);
    }
    each(entries_[0][i], next);
  }
  // What was level 1 stands for the tokens from the next one on.
  entries_.erase(entries_.begin());
  drop(emitted - std::min<std::size_t>(emitted, 1), text);
}

void LookaheadWindow::skip(std::span<const Token> text, std::size_t emitted) {
  if (!entries_.empty()) drop(emitted, text);
}

}  // namespace forerun
