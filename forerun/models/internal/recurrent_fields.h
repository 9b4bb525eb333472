#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/hf_fields.h"

/// Recurrent layers in the fields of Hugging Face's folders.
namespace forerun::internal {

inline constexpr const char *kLfm2 = "lfm2", *kQwen35 = "qwen3_5_text";

/// LFM2 and Qwen3.5 (Qwen3-Next too), with experts or without.
bool is_lfm2(const std::string& type);
bool is_qwen35(const std::string& type);
/// Epsilon of the norms and whether the head is tied, of LFM2.
/// @param mlp  the width of the MLP too
void read_lfm2_sizes(Fields& f, bool mlp, DecoderConfig& c);
/// Which layers are recurrent, and their sizes, of both.
void read_recurrent_layers(Fields& f, DecoderConfig& c);

/// The error in their sizes, if any.
std::optional<std::string> check_recurrent(const DecoderConfig& c);
/// Of a model without such layers.
void drop_unused_recurrent(DecoderConfig& c);

}  // namespace forerun::internal
