#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forerun/models/candidate_selector.h"
#include "forerun/models/dflash/dflash.h"
#include "forerun/models/markov_head.h"
#include "forerun/tensor/precision.h"

namespace forerun {

/// Context of one sequence: keys and values of positions 0, 1, ...
class DFlashContext {
 public:
  virtual ~DFlashContext() = default;
  virtual std::int64_t length() const noexcept = 0;
  /// A context with the first `positions` positions of this one. At least one further position has
  /// to be read before it drafts.
  virtual std::unique_ptr<DFlashContext> share(std::int64_t positions) const = 0;
};

/// The block of one sequence in a pass.
struct BlockSpan {
  DFlashContext* context = nullptr;  ///< of length L on entry, L + fresh on return
  /// [fresh, features * hidden] float32: the context of positions L, L + 1, ...
  const float* features = nullptr;
  std::int64_t fresh = 0;
  Token anchor = 0;         ///< follows the context, at position L + fresh
  std::int64_t drafts = 0;  ///< number of leading drafting slots whose logits are needed
};

/// A DFlash network for decoding, in a fixed precision. Thread-safe; passes of one network run one
/// at a time.
class DFlashPasses {
 public:
  /// @param model  float32, with embedding and head
  static std::unique_ptr<DFlashPasses> make(DFlash model, Precision precision);
  virtual ~DFlashPasses() = default;

  const DFlashConfig& config() const noexcept { return config_; }
  /// The target's token of a draft id.
  Token token(std::int64_t draft_id) const noexcept {
    return tokens_.empty() ? static_cast<Token>(draft_id)
                           : tokens_[static_cast<std::size_t>(draft_id)];
  }
  /// Whether a slot's logits change with the token before it.
  bool conditioned() const noexcept { return markov_.defined() || selects(); }
  /// Whether only the selector's candidates can be drafted.
  bool selects() const noexcept { return selector_.defined(); }

  virtual std::unique_ptr<DFlashContext> make_context() const = 0;

  struct Blocks {
    at::Tensor logits;  ///< [sum of drafts, draft_vocab] float32, without the token before
    at::Tensor hidden;  ///< [sum of drafts, hidden] float32: the output of the last norm
    /// [sum of drafts, config().slot_numbers()] float32: what `condition` reads of a slot.
    at::Tensor states;

    std::span<const float> state(std::int64_t row) const {
      const auto width = static_cast<std::size_t>(states.size(1));
      return {states.const_data_ptr<float>() + static_cast<std::size_t>(row) * width, width};
    }
  };
  /// One pass, sequence by sequence. Sequences with drafts = 0 only read their context.
  virtual Blocks forward(std::span<const BlockSpan> sequences) const = 0;
  /// Makes a slot's logits those after a token; of what a selector does not take, -infinity.
  /// @param state   of the slot
  /// @param logits  [draft_vocab]
  void condition(Token previous, std::span<const float> state, std::span<float> logits) const;
  /// The same for some draft ids, in float32: with a selector some of `candidates`.
  /// @param logits  [ids]
  void condition(Token previous, std::span<const float> state, std::span<const std::int32_t> ids,
                 std::span<float> logits) const;
  /// Draft ids that the selector takes of a slot.
  /// @param logits  [draft_vocab]
  std::vector<std::int32_t> candidates(std::span<const float> logits) const {
    return selector_.candidates(logits);
  }
  bool has_confidence() const noexcept { return !confidence_.empty(); }
  /// Bytes of the weights that a pass reads.
  virtual std::int64_t weight_bytes() const noexcept = 0;

  /// P(the draft of a slot is kept | the previous ones are).
  /// @param hidden  [hidden]
  double confidence(std::span<const float> hidden, Token previous) const;

 protected:
  DFlashPasses(const DFlash& model, Precision precision);

  DFlashConfig config_;
  std::vector<Token> tokens_;  // of draft ids; empty: all
  MarkovHead markov_;          // of w2 the rows of draft ids
  CandidateSelector selector_;
  std::vector<float> confidence_;  // weights, then the bias
};

}  // namespace forerun
