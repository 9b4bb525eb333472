#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/diffusion_lm/diffusion_lm.h"

namespace forerun {

/// Writes config.json and model.safetensors (bf16; no embedding, no head) of a network made from a
/// decoder's blocks into `folder`, which is created if missing; each file appears complete or not
/// at all.
/// @param provenance  kept in config.json under "forerun"; null: none
/// @throws std::invalid_argument  an undefined weight, or a network with a mask token
/// @throws FormatError            the folder cannot be written, the disk is full, ...
void save_diffusion_lm(const std::filesystem::path& folder, const DiffusionLm& model,
                       const nlohmann::json& provenance = nullptr);

/// Reads such a folder, as float32. Block sizes, embedding and head are the decoder's.
/// @param decoder  not packed; its blocks are not needed (DecoderParts::kEnds)
/// @throws FormatError  the folder, then what is wrong: not such a network, made from another
/// decoder, half a file, a tensor missing, unknown, of another shape or with a value that is not
/// finite
DiffusionLm load_diffusion_lm(const std::filesystem::path& folder, const DecoderLm& decoder);

/// Whether a folder's config.json says that it holds such a network.
bool is_block_diffusion(const nlohmann::json& config);

}  // namespace forerun
