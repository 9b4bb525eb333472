#pragma once

#include "forerun/core/draft_account.h"

namespace forerun {

/// What texts had that ended: how long they were, and what drafting gained them. An ended text
/// counts a sixteenth less with every later one.
class EndedTexts {
 public:
  /// @param account  the text's, at its end
  void observe(const DraftAccount& account) noexcept {
    length_ += (account.outputs() - length_) / kMemory;
    outputs_ += account.outputs() - outputs_ / kMemory;
    gained_ += account.gained() - gained_ / kMemory;
  }

  /// Outputs of a text; 128 before one ended.
  double length() const noexcept { return length_; }
  /// Outputs of plain decoding that drafting saves a text of that length, negative where it loses
  /// them. By output and not by text: short ones, which say little, count little.
  double gained() const noexcept { return gained_ / outputs_ * length_; }

 private:
  static constexpr double kMemory = 16.0;  // texts
  static constexpr double kLength = 128.0;
  // As if four texts had gained this: a first text may lose some of it.
  static constexpr double kTexts = 4.0, kGained = 16.0;

  double length_ = kLength;
  double outputs_ = kTexts * kLength, gained_ = kTexts * kGained;
};

}  // namespace forerun
