#include "forerun/api/model_file.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <filesystem>

#include "forerun/api/access.h"
#include "forerun/api/model_impl.h"
#include "forerun/base/gguf_parts.h"
#include "forerun/base/hash.h"
#include "forerun/base/mapped_file.h"
#include "forerun/models/int8_decoder.h"
#include "forerun/models/load_decoder.h"

namespace forerun {

DecoderLm numbers_of(const Model& model, DecoderParts parts) {
  if (model.precision() == Precision::kF32) return impl_of(model).lm;
  const c10::InferenceMode no_autograd;
  const std::string& path = model.path();
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    return load_decoder(load_gguf(path), Precision::kF32, parts);
  }
  return load_decoder(load_hf_config(path), load_safetensors(path), path, Precision::kF32, parts);
}

DecoderLm with_embedding(const Model& model) {
  const DecoderLm& lm = impl_of(model).lm;
  if (lm.stored_embedding) return numbers_of(model, DecoderParts::kEnds);
  DecoderLm out;
  out.config = lm.config;
  out.embedding = lm.int8 ? lm.int8->embedding() : lm.embedding;
  return out;
}

std::string hash_of_weights(const std::string& path) {
  Hash hash;
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    std::vector<std::filesystem::path> files = gguf_files(path);
    if (files.size() > 1 && load_gguf(path).parts() == 1) files = {path};  // a part by name alone
    for (const auto& file : files) hash.add(load_file(file).bytes());
    return "xxh3:" + hash.text();
  }
  // By name: the same tensors in other files are the same weights.
  const Safetensors weights = load_safetensors(path);
  std::vector<TensorView> tensors = weights.tensors();
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
  for (const TensorView& t : tensors) {
    hash.add(t.name).add(name_of(t.dtype)).add_all(t.shape).add_all(t.bytes);
  }
  return "xxh3:" + hash.text();
}

std::string Model::hash() const { return hash_of_weights(path()); }

}  // namespace forerun
