#pragma once

#include <memory>
#include <string>
#include <vector>

#include "forerun/models/gated_lora/gated_lora_file.h"
#include "forerun/train/tidar/tidar_objective.h"
#include "tests/support/dflash_training.h"

/// Adapters for the tiny models of tests/data/tiny, and their training.
namespace forerun::testing {

inline const std::string kTidar = FORERUN_SOURCE_DIR "/tests/data/tidar/";

/// The random adapters of tests/data/tidar/NAME for the tiny model NAME.
inline GatedLora tidar_adapters(const std::string& name, const DecoderLm& decoder) {
  return load_gated_lora(kTidar + name, decoder.config, name);
}

/// Owns the parts of an objective while a test changes some of them.
struct TidarParts {
  explicit TidarParts(const std::string& name = "llama_plain")
      : decoder(tiny_target(name)),
        lora(std::make_shared<GatedLora>(tidar_adapters(name, *decoder))) {
    options.offsets = 1000;
    options.held_out = 0.0;
  }
  TidarObjective make() const { return TidarObjective(decoder, lora, data, options); }

  std::shared_ptr<const DecoderLm> decoder;
  std::shared_ptr<GatedLora> lora;
  std::vector<TokenShards> data;
  TidarLossOptions options;
};

}  // namespace forerun::testing
