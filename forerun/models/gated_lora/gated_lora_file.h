#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "forerun/models/gated_lora/gated_lora.h"

namespace forerun {

/// Reads a folder of save_gated_lora (config.json and model.safetensors), in float32.
/// @param decoder, hash  of the model that it will serve, and its Model::hash
/// @throws FormatError  the folder, then what is wrong: no adapters, made for another model, half a
/// file, a tensor missing, unknown, of another shape or with a value that is not finite
GatedLora load_gated_lora(const std::filesystem::path& folder, const DecoderConfig& decoder,
                          const std::string& hash);

/// Whether an object of a config.json is that of such adapters.
bool describes_gated_lora(const nlohmann::json& config);

/// Writes config.json and model.safetensors (bf16) into `folder`, which is created if missing; each
/// file appears complete or not at all.
/// @param provenance  kept in config.json under "forerun"; null: none
/// @throws std::invalid_argument  a weight that is not of its config's shape, or packed
/// @throws FormatError            the folder cannot be written, the disk is full, ...
void save_gated_lora(const std::filesystem::path& folder, const GatedLora& lora,
                     const nlohmann::json& provenance = nullptr);

}  // namespace forerun
