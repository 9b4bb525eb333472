#pragma once

#include <ATen/ATen.h>

#include <string>

#include "forerun/models/gated_lora/gated_lora.h"

namespace forerun {

/// Random float32 adapters for a decoder, with a Markov head: their drafts are bad, their rows are
/// right.
/// @param target  Model::hash of the decoder
inline GatedLora random_adapters(const DecoderConfig& decoder, const std::string& target,
                                 std::int64_t block) {
  GatedLoraConfig config = gated_lora_config(decoder);
  config.target = target;
  config.block = block;
  config.rank = 4;
  config.markov_rank = 4;
  GatedLora lora = initial_gated_lora(config, at::randn({decoder.hidden}), 7);
  for (const ModelWeight& w : weights(lora)) {
    if (w.name.ends_with("lora_B.weight")) w.tensor->normal_(0.0, 0.2);
  }
  return lora;
}

}  // namespace forerun
