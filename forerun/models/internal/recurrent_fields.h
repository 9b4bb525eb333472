#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/hf_fields.h"

/// Recurrent layers in the fields of Hugging Face's folders.
namespace forerun::internal {

inline constexpr const char *kLfm2 = "lfm2", *kQwen35 = "qwen3_5_text";

/// Width of the MLP, epsilon of the norms and whether the head is tied, of LFM2.
void read_lfm2_sizes(Fields& f, DecoderConfig& c);
/// Which layers are recurrent, and their sizes, of both.
void read_recurrent_layers(Fields& f, DecoderConfig& c);

/// The error in their sizes, if any.
std::optional<std::string> check_recurrent(const DecoderConfig& c);

}  // namespace forerun::internal
