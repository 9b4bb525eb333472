#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/medusa/medusa.h"

namespace forerun {

/// Reads a folder of forerun train medusa: config.json and model.safetensors. The embedding is the
/// target's, as it is there.
/// @param target  its configuration and its embedding, in any floating-point type
/// @param type    of the other tensors: float32 or float64
/// @throws FormatError  the folder, then what is wrong: not such heads, made for another target,
/// half a file, a tensor missing, unknown, of another shape or with a value that is not finite
Medusa load_medusa(const std::filesystem::path& folder, const DecoderLm& target,
                   at::ScalarType type = at::kFloat);

/// Writes config.json and model.safetensors (bf16) into `folder`, which is created if missing; each
/// file appears complete or not at all.
/// @param provenance  kept in config.json under "forerun"; null: none
/// @throws std::invalid_argument  a weight that is undefined or not of its config's shape
/// @throws FormatError            the folder cannot be written, the disk is full, ...
void save_medusa(const std::filesystem::path& folder, const Medusa& model,
                 const nlohmann::json& provenance = nullptr);

}  // namespace forerun
