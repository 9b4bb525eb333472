#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "forerun/core/lane.h"
#include "forerun/core/reshape.h"
#include "forerun/core/rule.h"
#include "forerun/core/speculate.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// The conditionals of one verifying pass, made when they are asked for: rows behind a rejection
/// cost nothing.
class VerifiedTokens {
 public:
  /// @param logits  [sum of rows, vocab] float32, lane by lane; reshaped in place as rows are used
  /// @param rows    of each lane: its draft's size + 1
  VerifiedTokens(at::Tensor logits, std::span<const std::int64_t> rows, Reshape reshape);

  /// The target's law of the output at draft step `step` of lane `lane` (by index in the round).
  const TokenLaw& at(std::size_t lane, std::size_t step) const;

 private:
  at::Tensor logits_;
  std::vector<std::int64_t> first_;
  Reshape reshape_by_;
  mutable std::vector<std::optional<TokenLaw>> laws_;
};

/// The [vocab] float32 values of one row of a contiguous CPU tensor.
std::span<float> row_of(const at::Tensor& logits, std::int64_t row);

/// A decoder as the target of the loop: one KV cache a lane, rolled back exactly after every round.
class DecoderTarget {
 public:
  DecoderTarget(const DecoderLm& model, Reshape reshape) : model_(model), reshape_(reshape) {}

  /// One pass over the pending token and the draft of every lane. A lane seen for the first time is
  /// prefilled before.
  VerifiedTokens verify(std::span<TokenLane* const> lanes, std::span<const TokenDraft> drafts);
  void keep(std::span<TokenLane* const> lanes, std::span<const TokenDraft> drafts,
            std::span<const Outcome> outcomes);

  double prefill_seconds() const noexcept { return prefill_seconds_; }
  int prefill_passes() const noexcept { return prefill_passes_; }

 private:
  KvCache& cache_of(const TokenLane& lane);

  const DecoderLm& model_;
  Reshape reshape_;
  std::unordered_map<std::uint32_t, KvCache> caches_;  // by request
  double prefill_seconds_ = 0.0;
  int prefill_passes_ = 0;
};

}  // namespace forerun
