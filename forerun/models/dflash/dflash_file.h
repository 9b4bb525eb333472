#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/dflash/dflash.h"

namespace forerun {

/// Properties of the target that a drafter's file is checked against, and shared tensors.
struct DFlashTarget {
  std::int64_t hidden = 0, vocab = 0, layers = 0;
  at::Tensor embedding, head;  ///< [vocab, hidden]; undefined if the target has them packed

  explicit DFlashTarget(const DecoderLm& target);
  DFlashTarget() = default;
};

/// Reads a z-lab or speculators folder (config.json and model.safetensors), or one of ours. Tensors
/// that the checkpoint lacks come from the target: its embedding and head, or the rows of a reduced
/// vocabulary. They stay undefined if the target has none to share.
/// @param type  of all tensors: float32, float64 or bfloat16
/// @throws FormatError  the folder, then what is wrong: not a drafter, made for another target,
/// half a file, a tensor missing, unknown, of another shape or with a value that is not finite
DFlash load_dflash(const std::filesystem::path& folder, const DFlashTarget& target,
                   at::ScalarType type = at::kFloat);

/// Writes config.json and model.safetensors (bf16; no embedding, no head) into `folder`, which is
/// created if missing; each file appears complete or not at all.
/// @param provenance  kept in config.json under "forerun"; null: none
/// @throws std::invalid_argument  attention that no published file can describe, or an undefined
/// weight
/// @throws FormatError            the folder cannot be written, the disk is full, ...
void save_dflash(const std::filesystem::path& folder, const DFlash& model,
                 const nlohmann::json& provenance = nullptr);

}  // namespace forerun
