#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/dflash/dflash.h"

namespace forerun {

/// What a drafter's file is checked against, and shares.
struct DFlashTarget {
  std::int64_t hidden = 0, vocab = 0, layers = 0;
  at::Tensor embedding, head;  ///< [vocab, hidden]; undefined where the target has them packed

  explicit DFlashTarget(const DecoderLm& target);
  DFlashTarget() = default;
};

/// Reads a z-lab or speculators folder (config.json and model.safetensors), or one of ours. What
/// the checkpoint does not carry comes from the target: its embedding and its head, or the rows of
/// it that a reduced vocabulary names. They stay undefined where the target has none to share.
/// @param type  of all tensors: float32, float64 or bfloat16
/// @throws FormatError  the folder, then what is wrong: not a drafter, made for another target,
/// half a file, a tensor missing, unknown, of another shape or with a value that is no number
DFlash load_dflash(const std::filesystem::path& folder, const DFlashTarget& target,
                   at::ScalarType type = at::kFloat);

/// Writes config.json and model.safetensors (bf16; no embedding, no head) into `folder`, which is
/// made if missing; each file appears complete or not at all.
/// @param provenance  kept in config.json under "forerun"; null: nothing
/// @throws std::invalid_argument  attention that no published file can describe, or an undefined
/// weight
/// @throws FormatError            the folder cannot be written, the disk is full, ...
void save_dflash(const std::filesystem::path& folder, const DFlash& model,
                 const nlohmann::json& provenance = nullptr);

}  // namespace forerun
