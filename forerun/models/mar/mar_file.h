#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/base/result.h"
#include "forerun/models/mar/mar.h"

namespace forerun {

/// Whether a config.json describes such a network.
bool is_mar(const nlohmann::json& config);
/// Errors: another kind of network, a missing or mistyped field, sizes out of range.
Result<MarConfig> parse_mar_config(const nlohmann::json& config);
nlohmann::json mar_config_json(const MarConfig& config);

/// True if load_mar can read `path`, by its config only.
bool holds_mar(const std::filesystem::path& path) noexcept;

/// Reads a folder of config.json and model.safetensors. Published checkpoints are pickles, which
/// run code when they are read: tools/convert_mar.py makes such a folder of one, and a pickle is
/// refused here.
/// @param type  of all tensors: float32 or float64
/// @throws FormatError  the path, then what is wrong: a pickle, another network, a tensor missing,
/// unknown, of another shape or with a value that is not finite
Mar load_mar(const std::filesystem::path& path, at::ScalarType type = at::kFloat);

/// Writes config.json and model.safetensors into `folder`.
/// @param provenance  kept in config.json under "forerun"; null: none
/// @param type        of the tensors in the file: bfloat16 or float32
/// @throws FormatError  the folder cannot be written, the disk is full, ...
void save_mar(const std::filesystem::path& folder, const Mar& model,
              const nlohmann::json& provenance = nullptr, at::ScalarType type = at::kBFloat16);

}  // namespace forerun
