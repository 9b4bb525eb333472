#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "forerun/models/decoder_lm.h"

namespace forerun {

/// Hugging Face's config.json of a decoder, without what depends on its weights.
nlohmann::json decoder_config_json(const DecoderConfig& config);

/// Whether Hugging Face's layout of the family is written: of gpt-oss and of Granite with experts
/// it is not.
bool can_be_saved(const DecoderConfig& config) noexcept;

/// What a folder holds beside a decoder. Readers of decoders pass over it.
struct DecoderExtras {
  nlohmann::json config =
      nullptr;  ///< an object: fields of config.json that win over the decoder's
  std::vector<ModelWeight> weights;  ///< each is written in its own dtype
};

/// Writes config.json and model.safetensors in Hugging Face's layout, each weight in its own dtype,
/// into `folder`, which is created if missing. `load_decoder` in the same precision reads the same
/// weights back, bit for bit (but for a trained Gemma norm below 0.5, whose last bits may differ:
/// norms are stored minus 1). Each file appears complete or not at all. The tokenizer is not
/// written.
/// @param provenance  kept in config.json under "forerun"; null: none
/// @throws std::invalid_argument  a packed (int8) model, an undefined weight, or a config that the
/// layout cannot hold (rotary factors stored in a GGUF file, or not `can_be_saved`)
/// @throws FormatError            the folder cannot be written, the disk is full, ...
void save_decoder(const std::filesystem::path& folder, const DecoderLm& model,
                  const nlohmann::json& provenance = nullptr, const DecoderExtras& extras = {});

}  // namespace forerun
