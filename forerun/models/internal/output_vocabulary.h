#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "forerun/models/internal/weight_reader.h"

namespace forerun::internal {

/// The tokens that the rows of a reduced head stand for, stored as "d2t": offsets between rows and
/// tokens.
/// @param outputs  rows of the head
/// @return  [outputs] int64, rising, or undefined: every token
/// @throws FormatError  ids out of order or outside the vocabulary
at::Tensor read_output_vocabulary(WeightReader& source, std::int64_t vocab, std::int64_t outputs);

/// Writes the folder of a network for a target, as save_model_folder: its weights, and the tokens
/// of a reduced head.
/// @param tokens      [outputs] int64; undefined: every token
/// @param config      of config.json
/// @param provenance  kept there under "forerun"; null: none
/// @param who         as named_tensors, which throws for weights
void save_network_folder(const std::filesystem::path& folder, std::span<const ModelWeight> weights,
                         const at::Tensor& tokens, nlohmann::json config,
                         const nlohmann::json& provenance, std::string_view who);

}  // namespace forerun::internal
