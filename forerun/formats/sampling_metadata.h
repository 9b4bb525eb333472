#pragma once

#include <nlohmann/json_fwd.hpp>

#include "forerun/base/result.h"
#include "forerun/core/recommended_sampling.h"
#include "forerun/formats/gguf.h"

namespace forerun {

/// Of a generation_config.json: `do_sample` false is temperature 0, whatever else it says, and
/// negative `top_k` is 0. Null counts as absent; `file` is left empty.
/// Error: another type, or a value out of range; names the key.
Result<RecommendedSampling> parse_generation_config(const nlohmann::json& object);

/// Of the keys general.sampling.* of a GGUF file (llama.cpp's converter makes them of the file
/// above).
/// Error: another type, or a value out of range; names the key.
Result<RecommendedSampling> sampling_of(const Gguf& gguf);

}  // namespace forerun
