#include "forerun/models/four_bit_block.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "forerun/tensor/four_bit_weights.h"

namespace forerun {

Linear in_four_bits(Linear layer) {
  layer.stored = four_bit_weights(layer.weight);
  return layer;
}

TransformerBlock in_four_bits(TransformerBlock block) {
  for (Linear* layer : block.linears()) *layer = in_four_bits(*layer);
  return block;
}

void round_to_four_bits(TransformerBlock& block) {
  for (Linear* layer : block.linears()) {
    layer->weight = straight_through_four_bits(layer->weight);
  }
}

bool fits_four_bits(std::span<const ModelWeight> weights) {
  constexpr float kMost = 32768.0F;  // half of the largest: lines through levels may reach further
  return std::all_of(weights.begin(), weights.end(), [](const ModelWeight& w) {
    return w.tensor->abs().max().item<float>() < kMost;
  });
}

}  // namespace forerun
