#pragma once

#include "forerun/formats/gguf.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/decoder_lm.h"

namespace forerun {

/// @throws FormatError  path, then what is wrong: unsupported architecture, missing tensor, other
/// shape
DecoderLm load_decoder(const Gguf& gguf, Precision precision,
                       DecoderParts parts = DecoderParts::kAll);
DecoderLm load_decoder(const HfConfig& config, const Safetensors& weights, const std::string& path,
                       Precision precision, DecoderParts parts = DecoderParts::kAll);

}  // namespace forerun
