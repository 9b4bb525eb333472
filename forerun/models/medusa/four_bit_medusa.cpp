#include "forerun/models/medusa/four_bit_medusa.h"

#include "forerun/models/four_bit_block.h"
#include "forerun/tensor/four_bit_weights.h"

namespace forerun {

Medusa rounded_to_four_bits(const Medusa& model) {
  Medusa out = model;
  for (at::Tensor* weight : {&out.fc.weight, &out.gate.weight, &out.up.weight, &out.down.weight,
                             &out.heads.weight, &out.head}) {
    *weight = straight_through_four_bits(*weight);
  }
  return out;
}

bool fits_four_bits(Medusa model) {
  const std::vector<ModelWeight> all = weights(model);
  return fits_four_bits(std::span<const ModelWeight>(all));
}

}  // namespace forerun
