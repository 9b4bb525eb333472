#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "forerun/core/sequence.h"
#include "forerun/core/token_rule.h"

namespace forerun {

struct RngKey;

/// Picks drafts from a network's logits, which may be of a part of the target's vocabulary: tokens
/// outside have probability zero. Laws that a rule reads are kept until the next round.
class DraftPicker {
 public:
  /// @param vocab   of the target
  /// @param tokens  of the network's outputs, different ones
  DraftPicker(std::int64_t vocab, std::vector<Token> tokens)
      : vocab_(static_cast<std::size_t>(vocab)), tokens_(std::move(tokens)) {}

  /// The laws of earlier drafts are no longer needed.
  void begin_round() noexcept { used_ = 0; }
  /// Appends a token to a draft of the origin `draft_origin(sequence)`, and its law if the rule
  /// needs it.
  /// @param logits  [outputs] float32; changed
  /// @param key     of the position
  Token pick(const TokenSequence& sequence, std::span<float> logits, const RngKey& key,
             TokenDraft& draft);
  /// Appends a token that was chosen otherwise; false: the sampling forbids it.
  bool append(const TokenSequence& sequence, Token token, std::span<float> logits,
              TokenDraft& draft);
  /// Ends a draft whose next scores are not numbers. What was drafted before stays: to drop it for
  /// what followed would be a choice by its value, which biases the outputs.
  static void end(TokenDraft& draft);
  Token token(std::int32_t output) const noexcept {
    return tokens_[static_cast<std::size_t>(output)];
  }

 private:
  void change_(const TokenSequence& sequence, const TokenDraft& draft,
               std::span<float> logits) const;
  Categorical law(const TokenSequence& sequence, std::span<float> logits);

  std::size_t vocab_;
  std::vector<Token> tokens_;
  std::vector<std::vector<float>> rows_;  // [vocab]: what laws view
  std::size_t used_ = 0;
};

}  // namespace forerun
