#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "forerun/core/token.h"
#include "forerun/models/decoder_config.h"
#include "forerun/models/model_weight.h"
#include "forerun/models/transformer_block.h"
#include "forerun/tensor/precision.h"

namespace forerun {

struct Int8BlockLora;
class MarkovHead;

/// What adapters were trained as, and for which decoder.
struct GatedLoraConfig : BlockConfig {  // the decoder's
  std::int64_t layers = 0, vocab = 0;   // the decoder's
  std::string target;                   ///< Model::hash of the decoder
  std::int64_t block = 4;               ///< B: tokens of a block, the decided first one included
  /// First slot of a block that has a row: slot s predicts the token at s after the block's first
  /// position. 1 where slot 0, whose token the target itself decides, has none.
  std::int64_t first_slot = 1;
  std::int64_t rank = 32;  ///< 0: no adapters, mask rows meet the decoder's own weights
  /// The rows of a block begin with a copy of the token before it, which meets the adapters too
  /// (Nemotron-Labs-Diffusion).
  bool seeded = false;
  Token mask_token = 0;          ///< whose embedding a mask row has without a mask embedding
  std::int64_t markov_rank = 0;  ///< 0: no Markov head

  /// Mask rows of a block.
  std::int64_t slots() const noexcept { return block - first_slot; }
  /// Its rows in all.
  std::int64_t rows() const noexcept { return slots() + (seeded ? 1 : 0); }
};

/// Adapters by which an unchanged decoder predicts several tokens in one pass: mask rows, whose
/// input is one learned vector, meet them in every linear layer; all other rows do not, so their
/// logits, keys and values are the decoder's own bit for bit. The rows of a block see the text
/// before the block and each other, and row s predicts its own position.
///
/// A decoder that was itself trained on such rows needs no adapters: `layers` is empty then, and
/// what is left is the mask embedding and the Markov head.
/// Sources: TiDAR, arXiv:2511.08923 (the rows); gated LoRA, arXiv:2507.11851, section 3 (the gate).
struct GatedLora {
  GatedLoraConfig config;
  std::vector<BlockLora> layers;  ///< empty where `config.rank` is 0
  /// [hidden]: a mask row's input to the first block; undefined: the embedding of its token.
  at::Tensor mask_embedding;
  /// Markov head (DSpark, arXiv:2607.05147): what the token before a slot adds to its logits.
  at::Tensor markov_w1;  ///< [vocab, markov_rank], of the token before; or undefined
  at::Tensor markov_w2;  ///< [vocab, markov_rank], of the token predicted
  /// The layers in the form of the int8 engine; those above are undefined then.
  std::shared_ptr<const std::vector<Int8BlockLora>> int8;
  /// The Markov head in the form of the engine, made once for all texts; null before
  /// `in_precision`.
  std::shared_ptr<const MarkovHead> markov;

  bool adapts() const noexcept { return config.rank > 0; }
};

/// The trained weights by their names in files, in a fixed order.
std::vector<ModelWeight> weights(GatedLora& lora);

/// Sizes of adapters for a decoder.
GatedLoraConfig gated_lora_config(const DecoderConfig& decoder);

/// Float32 adapters that add nothing yet: A at random, B zero.
/// @param mean  [hidden]: the mask embedding's first value
GatedLora initial_gated_lora(const GatedLoraConfig& config, const at::Tensor& mean,
                             std::uint64_t seed);

/// Float32 adapters in the precision of the decoder that they will serve, in the form of the
/// engine.
GatedLora in_precision(const GatedLora& lora, Precision precision);

/// The Markov head's logits, [n, vocab].
/// @param previous  [n] int64: the tokens before the slots
at::Tensor markov_logits(const GatedLora& lora, const at::Tensor& previous);

}  // namespace forerun
