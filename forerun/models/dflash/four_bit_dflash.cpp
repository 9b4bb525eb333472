#include "forerun/models/dflash/four_bit_dflash.h"

#include <ATen/ATen.h>

#include "forerun/models/four_bit_block.h"
#include "forerun/tensor/four_bit_weights.h"

namespace forerun {

DFlash rounded_to_four_bits(const DFlash& model) {
  DFlash out = model;
  for (at::Tensor* weight : {&out.fc, &out.slot_state, &out.head, &out.selector_projection}) {
    if (weight->defined()) *weight = straight_through_four_bits(*weight);
  }
  for (TransformerBlock& layer : out.layers) round_to_four_bits(layer);
  if (out.config.markov_gated) {
    const at::Tensor of_slot = slot_projection(model).weight, &all = model.markov_gate.weight;
    const std::int64_t inputs = of_slot.size(1);
    out.markov_gate.weight = at::cat(
        {straight_through_four_bits(of_slot), all.narrow(1, inputs, all.size(1) - inputs)}, 1);
  }
  return out;
}

bool fits_four_bits(DFlash model) {
  std::vector<ModelWeight> all = weights(model);
  all.push_back({"lm_head.weight", &model.head, {}});
  return fits_four_bits(std::span<const ModelWeight>(all));
}

}  // namespace forerun
