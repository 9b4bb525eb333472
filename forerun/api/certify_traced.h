#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "forerun/base/interrupted.h"
#include "forerun/text.h"

namespace forerun {

/// A draft the rule examined, as it was when the output was decided.
struct JudgedDraft {
  std::size_t output = 0;     ///< index among the sequence's outputs
  std::vector<Token> tokens;  ///< the draft, or those of a tree that follow the place
  bool sampled = false;
  std::vector<float> law;  ///< log-weights it was sampled from, empty if it was not
};

/// Tokens that top-k, top-p and min-p have left, with their log-weights in the run.
using KeptTokens = std::vector<std::pair<Token, float>>;

/// A text, and what a certificate needs to know of how it came about.
struct TracedText {
  Generated generated;
  std::vector<JudgedDraft> drafts;
  std::vector<KeptTokens> kept;  ///< of each output, where limits are set
};

TracedText traced(const Model& target, const Drafter& drafter, const std::vector<Token>& prompt,
                  const GenerateOptions& options, const Listener& listener = {});

/// Certifies a text as one of `options`, which are those it was generated with, or claimed to be.
/// @param go_on  queried between passes; false leaves out the rest of the text
Certificate certify_traced(const Model& target, const Drafter& drafter,
                           std::span<const Token> prompt, const TracedText& text,
                           const GenerateOptions& options, const GoOn& go_on = {});

}  // namespace forerun
