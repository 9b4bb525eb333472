#pragma once

#include <span>

#include "forerun/models/model_weight.h"
#include "forerun/models/transformer_block.h"

namespace forerun {

/// A layer with its weights in 4 bits, in groups of 32 (four_bit_weights.h), for int8 passes.
Linear in_four_bits(Linear layer);
/// A block whose linear layers are so.
TransformerBlock in_four_bits(TransformerBlock block);

/// Rounds what a training pass reads of a block's linear layers: gradients reach the weights that
/// it had, as in straight_through_four_bits.
void round_to_four_bits(TransformerBlock& block);

/// Whether float16 holds the scales of all these weights in 4 bits.
bool fits_four_bits(std::span<const ModelWeight> weights);

}  // namespace forerun
