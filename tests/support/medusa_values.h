#pragma once

#include <ATen/ATen.h>

#include <stdexcept>
#include <string>

#include "forerun/formats/whole_numbers.h"
#include "forerun/models/medusa/medusa_file.h"
#include "tests/support/tiny_models.h"

/// The heads of tests/data/medusa and PyTorch's results for them.
namespace forerun {

inline const std::string kMedusaData = FORERUN_SOURCE_DIR "/tests/data/medusa/";

/// What load_medusa reads of the target that they were made for.
inline DecoderLm medusa_target(std::int64_t layers = 9) {
  static const Safetensors file = load_safetensors(kMedusaData + "target.safetensors");
  DecoderLm target;
  target.embedding = tensor_of(file, "embed_tokens.weight");
  target.config.vocab = target.embedding.size(0);
  target.config.hidden = target.embedding.size(1);
  target.config.layers = layers;
  return target;
}

inline Safetensors medusa_expected(const std::string& name) {
  return load_safetensors(kMedusaData + name + "/expected.safetensors");
}

/// A tensor of ids, int64.
inline at::Tensor medusa_ids(const Safetensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) throw std::runtime_error("no tensor " + name);
  return at::tensor(*whole_numbers(*view), at::kLong).view(view->shape);
}

}  // namespace forerun
