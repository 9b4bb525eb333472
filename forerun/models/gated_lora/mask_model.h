#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/models/decoder_lm.h"
#include "forerun/models/gated_lora/gated_lora.h"

namespace forerun {

/// Whether a config.json is that of a decoder which was trained whole on rows of masks
/// (save_mask_model): its folder loads as any other decoder does.
bool is_mask_model(const nlohmann::json& config);

/// What the mask rows of such a decoder need besides its weights: block, mask embedding, Markov
/// head. Rank 0, float32; `config.target` is empty.
/// @param decoder  the one in the folder
/// @throws FormatError  the folder, then what is wrong: not trained so, a number out of range, a
/// tensor missing, of another shape or with a value that is not finite
GatedLora load_masks(const std::filesystem::path& folder, const DecoderConfig& decoder);

/// Sizes for `decoder` without adapters.
/// @throws std::invalid_argument  a block or a rank out of range
GatedLoraConfig mask_config(const DecoderConfig& decoder, std::int64_t block,
                            std::int64_t first_slot, std::int64_t markov_rank);

/// Writes a decoder in Hugging Face's layout, matrices in bfloat16 and the rest in float32, with
/// "tidar" in config.json and tensors "tidar.NAME" beside its own. Each file appears complete or
/// not at all.
/// @param masks  null: the decoder alone
/// @param ids    an object with what else config.json holds, such as eos_token_id; null: nothing
/// @throws as save_decoder
void save_mask_model(const std::filesystem::path& folder, const DecoderLm& decoder,
                     const GatedLora* masks, const nlohmann::json& ids,
                     const nlohmann::json& provenance = nullptr);

}  // namespace forerun
