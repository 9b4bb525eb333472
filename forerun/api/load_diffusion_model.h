#pragma once

#include <memory>
#include <string>

#include "forerun/api/model_impl.h"
#include "forerun/models/diffusion_lm/diffusion_lm.h"

namespace forerun {

/// A published diffusion language model: Dream, LLaDA.
struct DiffusionModelFile {
  std::shared_ptr<const Model::Impl> text;  ///< tokenizer and the like
  DiffusionLm network;
};

/// Whether `path` is a folder or GGUF file of one.
/// @throws FormatError  a folder without config.json, a file that is not GGUF
bool holds_diffusion_model(const std::string& path);

/// Reads one from a Hugging Face folder or a GGUF file.
/// @throws as Model::load
DiffusionModelFile load_diffusion_model(const std::string& path, PrecisionRequest precision);

}  // namespace forerun
