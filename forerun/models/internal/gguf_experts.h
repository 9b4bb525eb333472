#pragma once

#include "forerun/formats/gguf.h"
#include "forerun/models/decoder_config.h"
#include "forerun/models/internal/gguf_keys.h"

namespace forerun::internal {

/// Layers of experts of a GGUF file, `intermediate` included; layers that predict further tokens
/// are taken off `layers`.
void read_experts(const Gguf& gguf, GgufKeys& k, DecoderConfig& c);

}  // namespace forerun::internal
