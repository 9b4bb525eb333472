#pragma once

#include <memory>
#include <string>
#include <vector>

#include "forerun/models/gated_lora/mask_model.h"
#include "forerun/train/tidar/tidar_model_objective.h"
#include "tests/support/dflash_training.h"

/// Tiny models of which all weights learn to draft on rows of masks.
namespace forerun::testing {

/// The tiny model NAME with weights that may be trained: each has memory of its own.
inline std::shared_ptr<DecoderLm> trainable_model(const std::string& name) {
  auto out = std::make_shared<DecoderLm>(*tiny_target(name));
  for (const ModelWeight& w : weights(*out)) *w.tensor = w.tensor->clone();
  return out;
}

/// Owns the parts of an objective while a test changes some of them.
struct TidarModelParts {
  explicit TidarModelParts(const std::string& name = "llama_plain", std::int64_t block = 4,
                           std::int64_t first_slot = 1, std::int64_t markov_rank = 2)
      : decoder(trainable_model(name)),
        masks(std::make_shared<GatedLora>(
            initial_gated_lora(mask_config(decoder->config, block, first_slot, markov_rank),
                               decoder->embedding.mean(0), 5))) {
    options.offsets = 1000;
    options.held_out = 0.0;
  }
  TidarModelObjective make() const {
    return TidarModelObjective(decoder, masks, data, options, {.ids = {}, .files = {}});
  }

  std::shared_ptr<DecoderLm> decoder;
  std::shared_ptr<GatedLora> masks;
  std::vector<TokenShards> data;
  TidarModelLossOptions options;
};

}  // namespace forerun::testing
