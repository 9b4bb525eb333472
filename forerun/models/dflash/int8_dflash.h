#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "forerun/models/dflash/dflash.h"
#include "forerun/models/int8_mlp.h"
#include "forerun/tensor/cpu/paged_attention.h"
#include "forerun/tensor/kv_cache.h"
#include "forerun/tensor/norm.h"

namespace forerun {

/// The block of one lane in a pass.
struct BlockSpan {
  KvCache* cache = nullptr;  ///< context of length L on entry, L + fresh on return
  /// [fresh, features * hidden] float32: the context of positions L, L + 1, ...
  const float* features = nullptr;
  std::int64_t fresh = 0;
  Token anchor = 0;         ///< stands behind the context, at position L + fresh
  std::int64_t drafts = 0;  ///< logits of the first so many drafting slots are wanted
};

/// A DFlash network in int8, for decoding (see dflash.h for what it computes). Context rows and
/// slots of all lanes share one pass, so that every weight is read once.
class Int8DFlash {
 public:
  /// @param model  float32 tensors; embedding and head as dflash.h has them
  explicit Int8DFlash(const DFlash& model);
  ~Int8DFlash();

  const DFlashConfig& config() const noexcept { return config_; }
  /// The target's token of a draft id.
  Token token(std::int64_t draft_id) const noexcept {
    return tokens_.empty() ? static_cast<Token>(draft_id)
                           : tokens_[static_cast<std::size_t>(draft_id)];
  }
  std::span<const Token> tokens() const noexcept { return tokens_; }  ///< empty: all

  KvCache make_cache() const;

  struct Blocks {
    at::Tensor logits;  ///< [sum of drafts, draft_vocab] float32, without the Markov head
    at::Tensor hidden;  ///< [sum of drafts, hidden] float32: what leaves the last norm
  };
  /// One pass. Lanes with drafts = 0 only take in their context.
  Blocks forward(std::span<const BlockSpan> lanes) const;

  bool has_markov() const noexcept { return config_.markov_rank > 0; }
  /// Adds what the token before says of a slot. @param logits  [draft_vocab]
  void add_markov(Token previous, float* logits) const;
  bool has_confidence() const noexcept { return config_.confidence; }
  /// P(the draft of a slot is kept | those before are). @param hidden  [hidden]
  double confidence(const float* hidden, Token previous) const;

  /// Bytes of the weights that a pass reads.
  std::int64_t weight_bytes() const noexcept;

 private:
  friend class Int8DFlashPass;
  struct Layer {
    RmsNorm attention_norm, mlp_norm, q_norm, k_norm;
    Int8Matrix q, kv, output;
    Int8Mlp mlp;
  };
  struct Workspace;

  DFlashConfig config_;
  at::Tensor embedding_;  // [vocab, hidden] bf16
  at::Tensor mask_;       // [hidden] float32
  RmsNorm hidden_norm_, norm_;
  Int8Matrix fc_, head_;
  std::vector<Layer> layers_;
  std::vector<Token> tokens_;  // of draft ids; empty: all
  at::Tensor markov_w1_;       // [vocab, rank] float32
  Int8Matrix markov_w2_;
  std::vector<float> confidence_;  // weights, then the bias
  std::vector<float> frequencies_;
  std::unique_ptr<Workspace> workspace_;
  mutable std::mutex one_pass_;
};

}  // namespace forerun
