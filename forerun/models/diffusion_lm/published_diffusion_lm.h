#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "forerun/formats/gguf.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/diffusion_lm/diffusion_lm.h"

namespace forerun {

/// Whether a file holds a published diffusion language model: Dream (Qwen2.5's blocks, shifted
/// predictions), LLaDA (Llama's blocks, aligned predictions) or LLaDA-MoE (blocks with experts and
/// norms of queries and keys, aligned), by model_type, or by general.architecture.
bool is_published_diffusion_lm(const nlohmann::json& config);
bool is_published_diffusion_lm(const Gguf& gguf);

/// Reads one, with its own embedding and head.
/// @throws FormatError  path, then what is wrong: another kind of model, no mask token, a missing
/// tensor, another shape
/// Source: Dream-org/Dream-v0-Instruct-7B, GSAI-ML/LLaDA-8B-Instruct,
/// inclusionAI/LLaDA-MoE-7B-A1B-Instruct; ggml-org/llama.cpp, src/models/dream.cpp, llada.cpp and
/// llada-moe.cpp.
DiffusionLm load_published_diffusion_lm(const Gguf& gguf, Precision precision);
DiffusionLm load_published_diffusion_lm(const HfConfig& config, const Safetensors& weights,
                                        const std::string& path, Precision precision);

}  // namespace forerun
