#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "forerun/core/lane.h"
#include "forerun/core/reshape.h"
#include "forerun/core/rule.h"
#include "forerun/core/speculate.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// The target's hidden states of a lane's positions first, first + 1, ... that a pass computed.
struct KeptStates {
  std::int64_t first = 0;
  const float* rows = nullptr;  ///< [.., blocks * hidden] float32
};

/// The conditionals of one verifying pass, made when they are asked for: rows behind a rejection
/// cost nothing.
class VerifiedTokens {
 public:
  /// @param logits  [sum of rows, vocab] float32, lane by lane; reshaped in place as rows are used
  /// @param rows    of each lane: its draft's size + 1
  VerifiedTokens(at::Tensor logits, std::span<const std::int64_t> rows, Reshape reshape);

  /// The target's law of the output at draft step `step` of lane `lane` (by index in the round).
  const TokenLaw& at(std::size_t lane, std::size_t step) const;
  /// The states of everything that lane `lane` was read in this round, its prompt too if it is new:
  /// from the first token that was not read before. Good until the target's next pass.
  KeptStates states(std::size_t lane) const { return states_[lane]; }
  void set_states(std::vector<KeptStates> states) { states_ = std::move(states); }

 private:
  at::Tensor logits_;
  std::vector<std::int64_t> first_;
  Reshape reshape_by_;
  mutable std::vector<std::optional<TokenLaw>> laws_;
  std::vector<KeptStates> states_;
};

/// The [vocab] float32 values of one row of a contiguous CPU tensor.
std::span<float> row_of(const at::Tensor& logits, std::int64_t row);

/// A decoder as the target of the loop: one KV cache a lane, rolled back exactly after every round.
class DecoderTarget {
 public:
  /// @param kept  zero-based ids of the blocks whose output drafters are shown (KeptStates)
  DecoderTarget(const DecoderLm& model, Reshape reshape, std::vector<std::int64_t> kept = {})
      : model_(model), reshape_(reshape), kept_(std::move(kept)) {}

  /// One pass over the pending token and the draft of every lane. A lane seen for the first time is
  /// prefilled before.
  VerifiedTokens verify(std::span<TokenLane* const> lanes, std::span<const TokenDraft> drafts);
  void keep(std::span<TokenLane* const> lanes, std::span<const TokenDraft> drafts,
            std::span<const Outcome> outcomes);

  double prefill_seconds() const noexcept { return prefill_seconds_; }
  int prefill_passes() const noexcept { return prefill_passes_; }

 private:
  KvCache& cache_of(const TokenLane& lane, std::vector<float>& states);
  std::int64_t width() const noexcept {
    return static_cast<std::int64_t>(kept_.size()) * model_.config.hidden;
  }

  const DecoderLm& model_;
  Reshape reshape_;
  std::vector<std::int64_t> kept_;
  std::vector<std::vector<float>> states_;             // of the lanes of the last pass
  std::unordered_map<std::uint32_t, KvCache> caches_;  // by request
  double prefill_seconds_ = 0.0;
  int prefill_passes_ = 0;
};

}  // namespace forerun
