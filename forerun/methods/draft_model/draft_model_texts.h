#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>

#include "forerun/core/sequence.h"
#include "forerun/core/sequence_id.h"
#include "forerun/core/token_rule.h"
#include "forerun/methods/prefilled.h"
#include "forerun/models/decoder_lm.h"
#include "forerun/tensor/cpu/kv_pool.h"

namespace forerun {

/// What a drafting language model has read of each text, and its next tokens.
class DraftModelTexts {
 public:
  explicit DraftModelTexts(const DecoderLm& model) : model_(model) {}

  /// Tokens that it has to read before it can draft, which no draft's first pass takes along.
  std::size_t unread(const TokenSequence& sequence) const;
  /// Tokens that its context has room for. A drafter with a shorter context than the target stops
  /// drafting there; the target continues.
  std::size_t room(const TokenSequence& sequence) const;
  /// Reads a piece of what is unread. @return  false: some is left
  bool catch_up(const TokenSequence& sequence);

  /// A text, and the tokens drafted after it so far.
  struct Wanted {
    const TokenSequence* sequence;
    std::span<const Token> drafted;
  };
  /// One pass of the model over what it has not read of them.
  /// @return  [wanted, vocab] float32 logits of the token after each
  at::Tensor next(std::span<const Wanted> wanted);

  /// Drops what was drafted and is no output.
  void settle(const TokenSequence& sequence);
  void forget(SequenceId id) { caches_.erase(id); }
  /// Tokens that were read by passes of their own: prompts, and outputs of plain rounds.
  Prefilled prefilled() const noexcept { return prefilled_; }

 private:
  KvCache& cache_of(const TokenSequence& sequence);
  std::int64_t length(const TokenSequence& sequence) const;

  const DecoderLm& model_;
  std::shared_ptr<KvPool> pool_ = std::make_shared<KvPool>();
  std::unordered_map<SequenceId, KvCache> caches_;
  Prefilled prefilled_;
};

/// The token that a drafting model takes after a text and its drafts so far.
/// @param row  [vocab] float32 logits; changed as the target's will be, then by the sampling
/// @return     and its law; a point mass is the token's own
struct DraftedToken {
  Token token;
  TokenLaw law;
};
DraftedToken take_token_(std::span<float> row, const TokenSequence& sequence,
                         std::span<const Token> drafted);

}  // namespace forerun
