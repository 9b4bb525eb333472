#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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
  bool has_markov() const noexcept { return config_.markov_rank > 0; }

  virtual std::unique_ptr<DFlashContext> make_context() const = 0;

  struct Blocks {
    at::Tensor logits;  ///< [sum of drafts, draft_vocab] float32, without the Markov head
    at::Tensor hidden;  ///< [sum of drafts, hidden] float32: the output of the last norm
  };
  /// One pass, sequence by sequence. Sequences with drafts = 0 only read their context.
  virtual Blocks forward(std::span<const BlockSpan> sequences) const = 0;
  /// Adds the previous token's Markov logits of a slot.
  /// @param logits  [draft_vocab]
  void add_markov(Token previous, std::span<float> logits) const { markov_.add(previous, logits); }
  /// The previous token's Markov logits of some draft ids, in float32.
  /// @param add  [ids], added to
  void add_markov(Token previous, std::span<const std::int32_t> ids, std::span<float> add) const {
    markov_.add(previous, ids, add);
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
  std::vector<Token> tokens_;      // of draft ids; empty: all
  MarkovHead markov_;              // of w2 the rows of draft ids
  std::vector<float> confidence_;  // weights, then the bias
};

}  // namespace forerun
