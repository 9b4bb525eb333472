#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "forerun/core/sequence.h"
#include "forerun/formats/tokenizer/tokenizer.h"
#include "forerun/methods/text/text_drafter.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// A language model with what turns its tokens into text. Kept by reference.
struct TextModel {
  const DecoderLm& lm;
  const Tokenizer& tokenizer;
  const std::unordered_set<Token>& end_tokens;  ///< any of them ends a text
};

/// A text to generate. Everything is the request's own; sharing changes no bits that a rule keeps.
struct TextRequest {
  std::vector<Token> prompt;
  TokenSettings settings;  ///< sampling and rule
  std::uint64_t seed = 0;
  std::uint32_t request = 0;  ///< separates the random numbers of requests of one seed
  std::size_t max_tokens = 256;
  std::vector<std::string> stop;  ///< strings that end the text and are cut from it
  bool ignore_end = false;        ///< continue after end tokens
  /// Log-probabilities of every output, with this many of the likeliest tokens beside it.
  std::optional<std::size_t> log_probabilities;
  bool report_rounds = false;  ///< as events
  /// Drafts for this text; null: plain decoding. Requests with one object draft together.
  std::shared_ptr<TextDrafter> drafter;
  /// Sees every round of this text; the index is the text's place in the round.
  std::function<void(const TextRound&, std::size_t)> observer;
};

}  // namespace forerun
