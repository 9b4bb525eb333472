#pragma once

#include <cstdint>
#include <filesystem>

#include "forerun/models/gated_lora/gated_lora.h"

namespace forerun {

/// Whether a folder holds adapters as PEFT writes them: adapter_config.json, and
/// adapter_model.safetensors beside it.
bool is_peft_folder(const std::filesystem::path& folder);

/// Mask rows of a decoder that was trained on them and reads a mask token
/// (Nemotron-Labs-Diffusion), without adapters. A block's rows are a copy of the newest token and
/// `rows` - 1 masks, which see each other and the text before that token. Rank 0, no mask
/// embedding. Source: arXiv:2607.05722, the rows of its linear loop.
/// @param rows  at least 3
/// @throws std::invalid_argument  another number of rows, or a decoder without a mask token
GatedLora seeded_masks(const DecoderConfig& decoder, std::int64_t rows);

/// The same rows with the adapters of a PEFT folder (`linear_spec_lora`), in float32: of o_proj
/// alone, times lora_alpha / r. All rows of a block meet them.
/// @throws FormatError  the folder, then what is wrong: not LoRA, parts that are not supported, a
/// tensor missing, unknown, of another shape (another model, another rank) or not finite
GatedLora load_peft_adapters(const std::filesystem::path& folder, const DecoderConfig& decoder,
                             std::int64_t rows);

}  // namespace forerun
