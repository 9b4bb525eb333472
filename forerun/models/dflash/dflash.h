#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/models/dflash/dflash_config.h"
#include "forerun/models/model_weight.h"
#include "forerun/models/transformer_block.h"
#include "forerun/tensor/kv_cache.h"

namespace forerun {

/// A network that predicts a whole block of text in one pass and reads a target's hidden states as
/// extra keys and values in every layer. All tensors are of one dtype, float32 or float64, and on
/// one device; under autocast products run in its dtype. Every function below is differentiable in
/// every weight.
struct DFlash {
  DFlashConfig config;
  at::Tensor fc;              ///< [hidden, features * hidden]
  RmsNorm hidden_norm, norm;  ///< of the context, of the output
  /// Keys and values of the context use the same k and v as the slots.
  std::vector<TransformerBlock> layers;
  at::Tensor slot_state;  ///< [hidden, hidden], or undefined: the last context row, added to slots
  at::Tensor mask_embedding;   ///< [hidden], or undefined: row mask_token of the embedding
  at::Tensor embedding;        ///< [vocab, hidden]: the target's, or the checkpoint's own
  at::Tensor head;             ///< [draft_vocab, hidden]: likewise, rows of draft_to_target
  at::Tensor draft_to_target;  ///< [draft_vocab] int64, rising; undefined: every token
  at::Tensor markov_w1;        ///< [vocab, rank], or undefined
  at::Tensor markov_w2;        ///< [draft_vocab, rank], or undefined
  Linear markov_gate;          ///< [rank, hidden + rank] with a bias, or undefined
  /// The selector: codebooks of the token before [vocab, rank] and of a candidate [draft_vocab,
  /// rank], and [rank, hidden]; or undefined. Published files have no reduced vocabulary; in ours
  /// only what can be a candidate has a row of the second, but any token may come before a slot.
  at::Tensor predecessors, successors, selector_projection;
  at::Tensor confidence_weight;  ///< [1, hidden + rank] or [1, hidden], or undefined
  at::Tensor confidence_bias;    ///< [1]

  DFlash() = default;
  /// Without weights.
  explicit DFlash(const DFlashConfig& config);
};

/// All trained weights, by their published names, in a fixed order: the body; the mask vector if it
/// is defined or replaces a missing mask token; the heads of the config. Embedding and head are the
/// target's and not included.
std::vector<ModelWeight> weights(DFlash& model);

/// A masked slot in a block of tokens; the id config.mask_token works as well if there is one.
inline constexpr Token kMaskSlot = -1;

/// Input of every layer's keys and values of the context: RMSNorm(fc X).
/// @param features  [n, features * hidden], of the target's blocks in the config's order
/// @return          [n, hidden]
at::Tensor context(const DFlash& model, const at::Tensor& features);

/// Keys and values of one sequence's committed context in every layer; row i is at position i.
/// Slots of a block are never added.
class DFlashCache {
 public:
  explicit DFlashCache(const DFlash& model);

  std::int64_t length() const noexcept { return kv_.length(); }
  /// Appends the context of positions length(), length() + 1, ...
  /// @param features  [n, features * hidden]
  void append(const DFlash& model, const at::Tensor& features);
  /// The context of the last position, [1, hidden]; undefined if there is none, or no slot_state.
  at::Tensor last() const;
  /// Keeps the first `length` positions; no effect if there are fewer.
  void truncate(std::int64_t length) noexcept { kv_.truncate(length); }
  const KvCache& kv() const noexcept { return kv_; }
  /// A cache of the first `positions` positions.
  DFlashCache share(std::int64_t positions) const;

 private:
  DFlashCache(KvCache kv, at::Tensor rows) : kv_(std::move(kv)), rows_(std::move(rows)) {}

  KvCache kv_;
  at::Tensor rows_;  // [at least length(), hidden] of networks with slot_state
};

/// One decoding pass over a block after the cached context.
/// @param block  the anchor's id, then masks; may be shorter or longer than config.block
/// @param start  the anchor's position, at least cache.length()
/// @return       [block.size(), hidden]: the output of the last norm, a row a slot
/// @throws std::invalid_argument  an empty block, an id outside the vocabulary, no mask for a
/// masked slot, or start inside the context
at::Tensor block_hidden(const DFlash& model, const DFlashCache& cache, std::span<const Token> block,
                        std::int64_t start);

/// The anchor and block - 1 masks.
std::vector<Token> masked_block(const DFlash& model, Token anchor);

/// Logits over the draft vocabulary, multiplier and soft cap applied, without Markov head and
/// selector.
/// @param hidden  [n, hidden], rows of block_hidden or training_blocks
/// @return        [n, draft_vocab] of the product's type; of at least float32 under a soft cap
at::Tensor block_logits(const DFlash& model, const at::Tensor& hidden);

/// The previous token's addition to a slot's logits: markov_w1[previous] markov_w2^T, gated if the
/// head is.
/// @param hidden    [n, hidden], rows of block_hidden or training_blocks; read by a gated head
/// @param previous  [n] int64, ids of the target's vocabulary
/// @return          [n, draft_vocab] of the product's type
at::Tensor markov_bias(const DFlash& model, const at::Tensor& hidden, const at::Tensor& previous);

/// What the selector adds to the logits of candidates: <A[previous] * (H hidden), B[candidate]>.
/// @param candidates  [n, k] int64, ids of the draft vocabulary
/// @return            [n, k] of at least float32
at::Tensor transition_scores(const DFlash& model, const at::Tensor& hidden,
                             const at::Tensor& previous, const at::Tensor& candidates);

/// What Markov head or selector read of a slot beside the token before it, config.slot_numbers()
/// numbers: weight [numbers, hidden] and bias, or undefined without such a head.
Linear slot_projection(const DFlash& model);

/// Logit of the probability that a slot's draft is accepted.
/// @param hidden    [n, hidden], rows of block_hidden or training_blocks
/// @param previous  [n] int64; not read if the head does not use the Markov rows
/// @return          [n] of at least float32
at::Tensor confidence(const DFlash& model, const at::Tensor& hidden, const at::Tensor& previous);

/// Blocks at many positions of many documents, for one training pass.
struct BlockBatch {
  at::Tensor features;                ///< [rows, features * hidden], documents concatenated
  std::vector<std::int64_t> lengths;  ///< rows of each document
  std::vector<std::vector<std::int64_t>> anchors;  ///< of each document: positions of the anchors
  at::Tensor anchor_tokens;                        ///< [sum of anchors] int64, in the same order
};

/// The decoding pass of every block of the batch at once: block j of a document sees the
/// document's rows before its anchor (never the anchor's own, which does not exist when decoding)
/// and its own slots.
/// @return  [sum of anchors, block, hidden]: the output of the last norm
/// @throws std::invalid_argument  sizes that do not match, or an anchor outside its document
at::Tensor training_blocks(const DFlash& model, const BlockBatch& batch);

}  // namespace forerun
