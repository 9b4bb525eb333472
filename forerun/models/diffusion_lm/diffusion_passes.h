#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "forerun/models/diffusion_lm/diffusion_lm.h"
#include "forerun/tensor/kv_cache.h"

namespace forerun {

/// What a diffusion language model has read of one text. Made by DiffusionPasses::begin.
class DiffusionText {
 public:
  /// Tokens read.
  std::int64_t length() const noexcept;
  /// A text of the first `positions` tokens.
  DiffusionText share(std::int64_t positions) const;

 private:
  friend class DiffusionPasses;
  std::optional<KvCache> cache_;  // of networks that keep what they read
  std::vector<Token> tokens_;     // of the others
};

/// One text in a pass.
struct MaskedSpan {
  DiffusionText* text = nullptr;  ///< of length L on entry, L + tokens on return
  /// Of positions L, L + 1, ...: what follows the text for good. Not empty if there are places and
  /// predictions are shifted.
  std::span<const Token> tokens;
  /// What stands after them, and is not kept: kMaskedToken, or tokens filled in so far.
  std::span<const Token> places;
};

/// Passes of a diffusion language model over texts. Thread-safe.
class DiffusionPasses {
 public:
  /// @param vocab  of the target: ids beyond it are no outputs; 0: no limit
  explicit DiffusionPasses(DiffusionLm model, std::int64_t vocab = 0);

  const DiffusionConfig& config() const noexcept { return model_.config; }
  std::int64_t context() const noexcept { return model_.body.config.context; }
  DiffusionText begin() const;

  /// One pass (a long piece of text is read in several). The prediction of a place is that of its
  /// token given the text and all places: independent of the other places' predictions.
  /// @return  [sum of places, outputs] float32 logits, text by text, those of config(); -infinity
  /// of
  ///          the mask token, which is never predicted
  /// @throws std::invalid_argument  an id outside the vocabulary, no text before the places, or
  /// more positions than the context. No text has changed then.
  at::Tensor forward(std::span<const MaskedSpan> texts) const;

  /// The token of an output.
  Token token(std::int64_t output) const noexcept {
    return tokens_.empty() ? static_cast<Token>(output) : tokens_[static_cast<std::size_t>(output)];
  }
  /// Bytes of the weights that one pass reads.
  std::int64_t weight_bytes() const { return model_.body.weight_bytes(); }

 private:
  struct Rows;
  bool keeps() const noexcept;
  void check(const MaskedSpan& span) const;
  void read(DiffusionText& text, std::span<const Token> tokens) const;
  Rows rows_of(const MaskedSpan& span, std::span<const Token> fresh) const;
  void embed(Rows& rows) const;
  SequenceSpan span_of(const Rows& rows, KvCache& cache) const;

  DiffusionLm model_;
  std::vector<float> mask_;       // the embedding of a masked place, where embeddings are the input
  std::vector<Token> tokens_;     // of outputs; empty: all
  std::int64_t forbidden_ = -1;   // output of the mask token; -1: it has none
  std::shared_ptr<KvPool> pool_;  // of all texts
};

}  // namespace forerun
