#include "forerun/models/dflash/four_bit_dflash.h"

#include <ATen/ATen.h>

#include "forerun/tensor/four_bit_weights.h"

namespace forerun {
namespace {

at::Tensor straight_through(const at::Tensor& weight) {
  if (!weight.defined()) return weight;
  const at::Tensor values = weight.detach();
  const at::Tensor rounded = four_bit_weights(values.cpu())->unpacked().to(values.device());
  return weight + (rounded - values);
}

}  // namespace

DFlash rounded_to_four_bits(const DFlash& model) {
  DFlash out = model;
  for (at::Tensor* weight : {&out.fc, &out.slot_state, &out.head, &out.selector_projection}) {
    *weight = straight_through(*weight);
  }
  for (TransformerBlock& layer : out.layers) {
    for (Linear* linear : layer.linears()) linear->weight = straight_through(linear->weight);
  }
  if (const Linear gate = slot_projection(out); out.config.markov_gated) {
    const at::Tensor& all = out.markov_gate.weight;
    const std::int64_t slot = gate.weight.size(1);
    out.markov_gate.weight =
        at::cat({straight_through(gate.weight), all.narrow(1, slot, all.size(1) - slot)}, 1);
  }
  return out;
}

}  // namespace forerun
