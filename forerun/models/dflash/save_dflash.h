#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "forerun/models/dflash/dflash.h"

namespace forerun {

/// Writes config.json and model.safetensors (bf16) into `folder`, each complete or not at all: the
/// published names of z-lab's files, and "mask_embedding", "d2t", "markov_head.*",
/// "confidence_head.*" where the network has them. Embedding and head are the target's and not
/// written.
/// @param provenance  kept in config.json under "forerun"
/// @throws FormatError  the folder cannot be written, the disk is full
void save_dflash(const std::filesystem::path& folder, const DFlash& model,
                 const nlohmann::json& provenance);

}  // namespace forerun
