#pragma once

#include "forerun/base/result.h"
#include "forerun/formats/gguf.h"
#include "forerun/models/decoder_config.h"

namespace forerun {

/// From the metadata of a GGUF file, and where it does not say enough, from its tensors.
/// Errors: an architecture or a part of one that is not supported, a key that is missing.
Result<DecoderConfig> parse_decoder_config(const Gguf& gguf);

/// Of another architecture with the blocks of a family, under its own keys.
/// @param experts  its MLPs have experts
Result<DecoderConfig> parse_decoder_config(const Gguf& gguf, Family family, bool experts = false);

}  // namespace forerun
