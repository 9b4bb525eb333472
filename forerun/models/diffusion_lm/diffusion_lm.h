#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/models/decoder_lm.h"
#include "forerun/models/model_weight.h"
#include "forerun/tensor/precision.h"

namespace forerun {

/// Whom the rows of a text see.
enum class DiffusionAttention : std::uint8_t {
  kBidirectional,  ///< each other (Dream, LLaDA); a pass reads the whole text again
  kBlock,  ///< text: what is before it, and is kept. Masks after it: the text and each other
};

/// A place to be predicted.
inline constexpr Token kMaskedToken = -1;

struct DiffusionConfig {
  DiffusionAttention attention = DiffusionAttention::kBlock;
  bool shifted = true;       ///< row i - 1 predicts token i, as in a decoder; else row i does
  Token mask_token = -1;     ///< its embedding stands in masked places; -1: a mask vector does
  std::int64_t vocab = 0;    ///< ids of the text
  std::int64_t outputs = 0;  ///< ids that it can predict; == vocab if not reduced
  std::int64_t block = 0;    ///< places that it was trained to predict in one pass; 0: any number
  /// The linear layers and the head are trained to be rounded to so many bits: 4, in groups of 32
  /// (four_bit_weights.h), or 0: they are not.
  std::int64_t weight_bits = 0;
  /// Fingerprint of the decoder whose embedding and head it uses; empty: its own.
  std::string target;
};

/// A masked diffusion language model: a transformer that predicts many masked tokens in one pass.
struct DiffusionLm {
  DiffusionConfig config;
  /// Blocks, last norm and head, of which config.vocab is the number of outputs. Where `embedding`
  /// is defined the body's own stands for its head alone.
  DecoderLm body;
  at::Tensor embedding;  ///< [vocab, hidden], a target's; undefined: the body's own
  at::Tensor mask;       ///< [hidden]: input of masked places; undefined: that of mask_token
  /// [outputs] int64, rising: the tokens that are predicted; undefined: all
  at::Tensor output_tokens;
};

/// The trained weights of a network with a mask vector, by their names in files, in a fixed order.
/// Embedding and head are a target's and not included.
std::vector<ModelWeight> weights(DiffusionLm& model);

/// Tells decoders apart whatever format and precision their files have: a digest of the last norm,
/// which is stored exactly in all of them.
std::string fingerprint(const DecoderLm& decoder);

/// A network of kind kBlock without weights, with the block sizes of a decoder.
/// @param outputs  ids that it can predict
/// @throws std::invalid_argument  a Gemma decoder, or more layers than it has
DiffusionLm block_diffusion_for(const DecoderLm& decoder, std::int64_t layers, std::int64_t block,
                                std::int64_t outputs);

/// Gives a network the embedding and the head of a decoder, in its own precision.
/// @param output_tokens  [outputs] int64, rising; undefined: every token
void share_ends(DiffusionLm& model, const DecoderLm& decoder, const at::Tensor& output_tokens);

/// A network of kind kBlock from the first blocks of a decoder, with its embedding and head, and
/// its last norm, scaled down unless all blocks are there; the mask vector begins as the mean row
/// of the embedding. float32 on the CPU, nothing is shared with the decoder's memory. The weights
/// are those of a kBidirectional network, too.
/// @param output_tokens  [outputs] int64, rising; undefined: every token
/// @throws std::invalid_argument  a packed (int8) decoder or a Gemma one, or more layers than it
/// has
DiffusionLm diffusion_from_decoder(const DecoderLm& decoder, std::int64_t layers,
                                   std::int64_t block, const at::Tensor& output_tokens = {});

/// The network as passes in 4 bits compute it, for training: straight_through_four_bits of its
/// linear layers and of the head; everything else is shared.
/// @param model  float32, without an embedding of its own
DiffusionLm rounded_to_four_bits(const DiffusionLm& model);

/// A float32 network in the precision in which it is run.
DiffusionLm in_precision(const DiffusionLm& model, Precision precision);

/// Blocks of masks after many positions of many documents, for one training pass.
struct MaskedBatch {
  std::vector<std::span<const Token>> documents;
  /// Of each document: positions of the rows before the blocks. The block of anchor p predicts
  /// tokens p + 1 to p + block: row p and block - 1 masks after it.
  std::vector<std::vector<std::int64_t>> anchors;
};

struct MaskedStates {
  /// The output of the last norm: [rows, hidden], documents concatenated; of kBidirectional
  /// networks [sum of anchors, hidden], the row of each anchor.
  at::Tensor text;
  at::Tensor masks;  ///< [sum of anchors, block - 1, hidden]: likewise
};

/// Of kBlock networks the documents' own rows and all blocks at once: a block sees its document up
/// to its anchor, and itself. Of kBidirectional ones each block with its own copy of the document
/// up to its anchor, all of whose rows see all others.
/// Differentiable in all of `weights(model)`, which are float32 or float64; under autocast products
/// run in its dtype.
/// @throws std::invalid_argument  an id outside the vocabulary, an empty document or one longer
/// than the context, an anchor outside its document, or a network with its own embedding
MaskedStates training_states(const DiffusionLm& model, const MaskedBatch& batch);

}  // namespace forerun
