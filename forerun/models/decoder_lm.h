#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "forerun/base/interrupted.h"
#include "forerun/core/token.h"
#include "forerun/models/decoder_config.h"
#include "forerun/models/model_weight.h"
#include "forerun/models/transformer_block.h"
#include "forerun/tensor/kv_cache.h"
#include "forerun/tensor/precision.h"
#include "forerun/tensor/scalar_type.h"

namespace forerun {

class Int8Decoder;
struct GatedLora;

/// A decoder-only language model of one of the families of decoder_config.h;
/// Nemotron-Labs-Diffusion is a Llama here.
struct DecoderLm {
  DecoderConfig config;
  Precision precision = Precision::kF32;
  at::Tensor embedding;  ///< [vocab, hidden]
  std::vector<TransformerBlock> layers;
  RmsNorm final_norm;
  at::Tensor own_head;    ///< [vocab, hidden]; undefined if the embedding serves: config.tied_head
  Rope rope, local_rope;  ///< of full and of sliding-window attention
  /// All weights in the form of the int8 engine (precisions kInt8 and kInt4); the tensors above are
  /// undefined then.
  std::shared_ptr<const Int8Decoder> int8;
  /// Embedding and head as the file has them (precision kFile, as the matrices of the layers); the
  /// tensors are undefined then. Without a head the embedding serves.
  std::shared_ptr<const StoredMatrix> stored_embedding, stored_head;

  const at::Tensor& head() const { return config.tied_head ? embedding : own_head; }
  /// @param pool  where its memory comes from; none: a pool of its own, without limit
  KvCache make_cache(std::shared_ptr<KvPool> pool = nullptr) const;
  /// Bytes of the weights that a pass of one row reads; of the embedding only rows are read.
  std::int64_t weight_bytes() const;
};

/// All weights of a model that is not packed (int8), by Hugging Face's names; a tied head is the
/// embedding and not listed.
std::vector<ModelWeight> weights(DecoderLm& model);

/// Which tensors of a decoder's file are loaded.
enum class DecoderParts : std::uint8_t {
  kAll,
  kEnds,  ///< embedding, last norm and head, without the layers
};

/// The new rows of one sequence in a packed pass. Without parents, groups and skips they are a
/// chain, which the pass keeps: the cache's length L grows by their number. Otherwise they are
/// pending after it, and KvCache::keep chooses those that stay. RowPlan says what a row sees, and
/// where it is.
struct SequenceSpan {
  KvCache* cache = nullptr;
  std::span<const Token> tokens;  ///< one for each row
  std::int64_t scored = 0;        ///< number of last rows whose logits are needed
  /// [rows, blocks * hidden] float32, or null: receives the residual stream after each of the
  /// pass's `kept` blocks, in their order.
  float* states = nullptr;
  std::span<const std::int32_t> parents;      ///< as RowPlan::of
  std::span<const std::int32_t> groups;       ///< as RowPlan::of
  std::span<const std::int32_t> skips;        ///< as RowPlan::of
  std::span<const std::int32_t> scored_rows;  ///< rows whose logits are needed, if `scored` is 0
  /// [rows, hidden] float32 in place of `tokens`: the rows' input to the first block, as it is.
  std::span<const float> embeddings;
  /// Adapters in the model's precision, for the rows `masks`: rising, whatever their tokens, which
  /// are read where the adapters have no mask embedding. The others' numbers are those of a pass
  /// without adapters, bit for bit.
  const GatedLora* adapters = nullptr;
  std::span<const std::int32_t> masks;
  /// The sequence is decoded greedily: of the last `scored` rows the logits of one that follows
  /// another are needed only if its token has the largest logit there, and if that row's are
  /// needed. The pass may leave out those of others: the first is NaN then, the rest undefined, but
  /// for those below `unreached_logits`.
  bool greedy = false;
  std::int64_t unreached_logits = 0;
};

/// One pass over the rows of several sequences: linear layers over all rows packed, attention per
/// sequence. Prefill and every later pass are this call.
/// @param kept  zero-based ids of the blocks whose output sequences request in `states`
/// @return  [sum of scored, vocab] float32 logits, sequence by sequence; a row predicts the token
/// after its own
/// @throws std::invalid_argument  an id outside the vocabulary, more positions than the context, a
/// missing block, a wrong plan, masks without adapters for this model, or a cache with pending
/// rows; KvPoolFull  the caches' pools have no memory for it. No cache has changed then.
at::Tensor forward(const DecoderLm& model, std::span<const SequenceSpan> sequences,
                   std::span<const std::int64_t> kept = {});

/// The rotary embeddings of the rows of one pass.
struct LayerRotations {
  Rotation full, local, none;

  /// Those of a layer.
  const Rotation& of(const DecoderConfig& config, std::size_t layer) const {
    return !config.rotates(layer) ? none : config.sliding[layer] ? local : full;
  }
};

/// @param positions  [rows] int64
/// @param network    type of its weights
LayerRotations rotations_at(const DecoderLm& model, const at::Tensor& positions,
                            at::ScalarType network = at::kFloat);

/// [n, hidden]: the input of the first block.
/// @param ids  [n] int64
at::Tensor embed(const DecoderLm& model, const at::Tensor& ids);

/// Logits, soft cap applied.
/// @param hidden  [n, hidden]: outputs of the last norm
/// @return        [n, vocab] of the product's type; of at least float32 under a soft cap
at::Tensor head_logits(const DecoderLm& model, const at::Tensor& hidden);

/// @throws std::invalid_argument  an id outside the vocabulary
void check_tokens(const DecoderLm& model, std::span<const Token> tokens);

/// Rows of a prompt in one pass: bounds the attention scores of a pass (heads * rows * positions),
/// and the time between two questions whether to go on: of large models in int8, whose rows are the
/// same bits in any company. Elsewhere other passes would round differently.
std::int64_t prefill_rows(const DecoderLm& model);

/// Appends tokens to a cache without computing their logits, in passes of bounded size.
/// @param states  as in SequenceSpan, for the blocks `kept`
/// @param go_on   queried between passes
/// @return  the number of passes
/// @throws Interrupted  go_on was false; the cache holds the tokens of the passes before
int prefill(const DecoderLm& model, KvCache& cache, std::span<const Token> tokens,
            float* states = nullptr, std::span<const std::int64_t> kept = {},
            const GoOn& go_on = {});

}  // namespace forerun
