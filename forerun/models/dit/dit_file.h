#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/base/result.h"
#include "forerun/models/dit/dit.h"

namespace forerun {

/// Arithmetic in which a checkpoint is run (DitConfig lists the differences).
enum class DitConventions : std::uint8_t { kReference, kDiffusers };

/// Whether a config.json describes a Diffusion Transformer; whether it has diffusers' layout.
bool is_dit(const nlohmann::json& config);
bool is_diffusers_dit(const nlohmann::json& config);

/// From a config.json of ours ("architecture": "dit") or of diffusers (DiTTransformer2DModel).
/// Errors: another kind of network, a missing or mistyped field, sizes out of range, options that
/// are not supported.
Result<DitConfig> parse_dit_config(const nlohmann::json& config,
                                   DitConventions conventions = DitConventions::kReference);
nlohmann::json dit_config_json(const DitConfig& config);

/// True if load_dit can read `path`, by its config or the names of its tensors only.
bool holds_dit(const std::filesystem::path& path) noexcept;

/// Reads a Diffusion Transformer: a folder of ours (config.json, model.safetensors); a folder of
/// diffusers (the transformer's, or the pipeline's that holds it); or one safetensors file with
/// facebookresearch/DiT's names, whose sizes are taken from its tensors.
/// @param type  of all tensors: float32 or float64
/// @throws FormatError  the path, then what is wrong: not a DiT, half a file, a tensor missing,
/// unknown, of another shape or with a value that is not finite
Dit load_dit(const std::filesystem::path& path,
             DitConventions conventions = DitConventions::kReference,
             at::ScalarType type = at::kFloat);

/// Writes config.json and model.safetensors (bf16, facebookresearch/DiT's names) into `folder`.
/// @param provenance  kept in config.json under "forerun"; null: none
/// @throws FormatError  the folder cannot be written, the disk is full, ...
void save_dit(const std::filesystem::path& folder, const Dit& model,
              const nlohmann::json& provenance = nullptr);

/// A hash that differs for networks with other weights (models/weights_digest.h).
std::string digest_of(const Dit& model);

}  // namespace forerun
