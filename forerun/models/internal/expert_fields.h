#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/hf_fields.h"

/// Layers of experts in the fields of Hugging Face's folders.
namespace forerun::internal {

/// Their model types.
inline constexpr const char *kMixtral = "mixtral", *kQwen3Moe = "qwen3_moe", *kGptOss = "gpt_oss",
                            *kQwen2Moe = "qwen2_moe", *kOlmoe = "olmoe", *kGlm4Moe = "glm4_moe",
                            *kErnie45Moe = "ernie4_5_moe", *kGraniteMoe = "granitemoe",
                            *kGraniteMoeShared = "granitemoeshared", *kLfm2Moe = "lfm2_moe",
                            *kQwen35Moe = "qwen3_5_moe_text", *kQwen3Next = "qwen3_next";

/// Whether models of a type have experts.
bool has_experts(const std::string& type);
/// Granite with experts, with a shared one or without.
bool is_granite_moe(const std::string& type);
/// Numbers and widths of experts and what else belongs to them, `intermediate` included.
void read_experts(Fields& f, const std::string& type, DecoderConfig& c);
/// The shared expert of Qwen's types: its width and its gate.
void read_gated_shared_expert(Fields& f, DecoderConfig& c);
/// The same in a file that we write.
void describe_experts(nlohmann::json& out, const DecoderConfig& c);

}  // namespace forerun::internal
