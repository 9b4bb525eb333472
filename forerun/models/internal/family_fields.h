#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/hf_fields.h"

/// What some families of Hugging Face's folders have besides the fields of all.
namespace forerun::internal {

inline constexpr const char *kSmolLm3 = "smollm3", *kGranite = "granite", *kOlmo3 = "olmo3";

/// "layer_types", of layers with a window and without.
void read_layer_types(const nlohmann::json& types, Fields& f, DecoderConfig& c);

/// Llama with layers that have no rotary embedding, and with windows there, if any.
void read_smollm3(Fields& f, DecoderConfig& c);
void describe_smollm3(nlohmann::json& out, const DecoderConfig& c);

/// Llama with multipliers.
void read_granite(Fields& f, DecoderConfig& c);
bool is_granite(const DecoderConfig& c);
void describe_granite(nlohmann::json& out, const DecoderConfig& c);

/// Which part of a head is rotated.
/// @param otherwise  where the file does not say it
void read_part_of_a_head(double otherwise, Fields& f, DecoderConfig& c);
/// "partial_rotary_factor", if readers need it.
void describe_part_of_a_head(nlohmann::json& out, const DecoderConfig& c);

/// Rotary embedding and window of Phi-3.
void read_phi3(Fields& f, DecoderConfig& c);

/// Of Gemma 2, after the fields of Gemma: its caps where the file does not say them.
void read_gemma2_caps(const nlohmann::json& config, Fields& f, DecoderConfig& c);

/// Windows of OLMo 3.
void read_olmo3_windows(Fields& f, DecoderConfig& c);

/// Windows and gates of gpt-oss.
void read_gpt_oss(Fields& f, DecoderConfig& c);

}  // namespace forerun::internal
