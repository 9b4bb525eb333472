#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "forerun/base/interrupted.h"
#include "forerun/core/rule.h"
#include "forerun/core/sampling_params.h"
#include "forerun/core/sequence.h"
#include "forerun/core/speculate.h"
#include "forerun/core/token_rule.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// The target's hidden states of a sequence's positions first, first + 1, ... that a pass computed.
struct HiddenStates {
  std::int64_t first = 0;
  const float* rows = nullptr;  ///< [.., blocks * hidden] float32
};

/// The conditionals of one verifying pass, computed on demand: rows after a rejection cost nothing.
class VerifiedTokens {
 public:
  /// @param logits  [sum of rows, vocab] float32, sequence by sequence; modified in place as rows
  /// are used
  /// @param rows    of each sequence: its draft's size + 1
  VerifiedTokens(at::Tensor logits, std::span<const std::int64_t> rows, SamplingParams sampling);

  /// The target's law of the output at draft step `step` of sequence `sequence` (by index in the
  /// round).
  const TokenLaw& at(std::size_t sequence, std::size_t step) const;
  /// The states of all positions of sequence `sequence` that the round read, including the prompt
  /// of a new one. Valid until the target's next pass.
  HiddenStates states(std::size_t sequence) const { return states_[sequence]; }
  void set_states(std::vector<HiddenStates> states) { states_ = std::move(states); }

 private:
  at::Tensor logits_;
  std::vector<std::int64_t> first_;
  SamplingParams sampling_;
  mutable std::vector<std::optional<TokenLaw>> laws_;
  std::vector<HiddenStates> states_;
};

/// The [vocab] float32 values of one row of a contiguous CPU tensor.
std::span<float> row_of(const at::Tensor& logits, std::int64_t row);

/// A decoder as the target of the loop: one KV cache for each sequence, rolled back exactly after
/// every round.
class DecoderTarget {
 public:
  /// @param kept   zero-based ids of the blocks whose output drafters read (HiddenStates)
  /// @param go_on  queried during prefill
  DecoderTarget(const DecoderLm& model, SamplingParams sampling,
                std::vector<std::int64_t> kept = {}, GoOn go_on = {})
      : model_(model), sampling_(sampling), kept_(std::move(kept)), go_on_(std::move(go_on)) {}

  /// One pass over the pending token and the draft of every sequence. A new sequence is prefilled
  /// before.
  /// @throws Interrupted  go_on was false; a prompt that was not read completely has no cache
  VerifiedTokens verify(std::span<TokenSequence* const> sequences,
                        std::span<const TokenDraft> drafts);
  void keep(std::span<TokenSequence* const> sequences, std::span<const TokenDraft> drafts,
            std::span<const Outcome> outcomes);

  double prefill_seconds() const noexcept { return prefill_seconds_; }
  int prefill_passes() const noexcept { return prefill_passes_; }

 private:
  KvCache& cache_of(const TokenSequence& sequence, std::vector<float>& states);
  KvCache read_prompt(const TokenSequence& sequence, std::vector<float>& states);
  std::int64_t width() const noexcept {
    return static_cast<std::int64_t>(kept_.size()) * model_.config.hidden;
  }

  const DecoderLm& model_;
  SamplingParams sampling_;
  std::vector<std::int64_t> kept_;
  GoOn go_on_;
  std::vector<std::vector<float>> states_;             // of the sequences of the last pass
  std::unordered_map<std::uint32_t, KvCache> caches_;  // by request
  double prefill_seconds_ = 0.0;
  int prefill_passes_ = 0;
};

}  // namespace forerun
