#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "forerun/core/sampling_params.h"
#include "forerun/core/sequence.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/text/logit_mix.h"

namespace forerun {

/// The target's hidden states of a sequence's positions first, first + 1, ... that a pass computed.
struct HiddenStates {
  std::int64_t first = 0, count = 0;
  const float* rows = nullptr;  ///< [count, blocks * hidden] float32
};

/// The rows of a pass that belong to one sequence's draft.
struct VerifiedRows {
  std::int64_t first = 0, count = 0;  ///< rows of the logits: one a draft, and one more
  SamplingParams sampling;
  ChangedLogits changed = {};         ///< of the first row's logits, before the sampling parameters
  const TokenDraft* draft = nullptr;  ///< whose tokens change those of the rows after them
  bool keep_raw = false;        ///< the logits themselves are needed too, for log-probabilities
  HiddenStates states;          ///< of the positions that the pass read; valid until the next pass
  std::int64_t companions = 0;  ///< rows of the logits after those: of companion rows, as scored,
  std::int64_t companion_rows = 0;  ///< of so many that ran
  LogitMix mix = {};                ///< of the rows' logits with theirs
};

/// The text's grammar can neither go on nor end here.
class NoTokenAllowed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The conditionals of one verifying pass, computed on demand: rows after a rejection cost nothing.
class VerifiedTokens {
 public:
  /// @param logits  [rows, vocab] float32; modified in place as rows are used
  VerifiedTokens(at::Tensor logits, std::vector<VerifiedRows> sequences);

  /// The target's law of the output at draft step `step` of sequence `sequence` (by index in the
  /// round), or that of VerifiedRows::mix.
  const TokenLaw& at(std::size_t sequence, std::size_t step) const;
  /// The logits of a row that `at` has used, if they are kept.
  std::span<const float> raw(std::size_t sequence, std::size_t step) const;
  /// [vocab] float32: the logits of a row; after `at` has used it, as the sampling changed them.
  std::span<const float> logits(std::size_t sequence, std::size_t step) const;
  const HiddenStates& states(std::size_t sequence) const { return sequences_[sequence].states; }
  /// Companion rows of a sequence that ran: all, or none.
  std::size_t companion_rows(std::size_t sequence) const {
    return static_cast<std::size_t>(sequences_[sequence].companion_rows);
  }
  /// [vocab] float32: the logits of number `i` of CompanionRows::scored, if they ran.
  std::span<const float> companion(std::size_t sequence, std::size_t i) const;

 private:
  struct Row {
    std::optional<TokenLaw> law;
    std::vector<float> raw;
  };
  at::Tensor logits_;
  std::vector<VerifiedRows> sequences_;
  mutable std::vector<std::vector<Row>> rows_;
};

/// An observer's view of a round of texts.
using TextRound = Round<TokenSequence, TokenDraft, VerifiedTokens>;

/// The [vocab] float32 values of one row of a contiguous CPU tensor.
std::span<float> row_of(const at::Tensor& logits, std::int64_t row);

}  // namespace forerun
