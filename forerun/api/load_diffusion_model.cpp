#include "forerun/api/load_diffusion_model.h"

#include <filesystem>
#include <utility>

#include "forerun/api/choose_precision.h"
#include "forerun/api/load_text_model.h"
#include "forerun/models/diffusion_lm/published_diffusion_lm.h"
#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {
namespace {

// The network's body, and all of it into `network`.
DecoderLm split(DiffusionLm model, DiffusionLm& network) {
  network = std::move(model);
  return network.body;
}

}  // namespace

bool holds_diffusion_model(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return is_published_diffusion_lm(load_hf_config(path).config);
  }
  return is_published_diffusion_lm(load_gguf(path));
}

DiffusionModelFile load_diffusion_model(const std::string& path, PrecisionRequest precision) {
  DiffusionModelFile out;
  out.text = load_text_model(
      path, precision,
      {.from_gguf =
           [&](const Gguf& gguf, Precision p) {
             return split(load_published_diffusion_lm(gguf, p), out.network);
           },
       .from_folder =
           [&](const HfConfig& config, const Safetensors& weights, const std::string& at,
               Precision p) {
             return split(load_published_diffusion_lm(config, weights, at, p), out.network);
           },
       .rows = rows_of_whole_texts(cpu_features())});
  return out;
}

}  // namespace forerun
