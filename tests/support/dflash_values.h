#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "forerun/formats/whole_numbers.h"
#include "forerun/models/dflash/dflash_file.h"
#include "tests/support/tiny_models.h"

/// The checkpoints of tests/data/dflash and the published implementations' results.
namespace forerun {

inline const std::string kDFlash = FORERUN_SOURCE_DIR "/tests/data/dflash/";

/// The target that the checkpoints of the published libraries were made for.
inline DFlashTarget dflash_target(std::int64_t layers = 9) {
  static const Safetensors file = load_safetensors(kDFlash + "target.safetensors");
  DFlashTarget target;
  target.embedding = tensor_of(file, "embed_tokens.weight");
  target.head = tensor_of(file, "lm_head.weight");
  target.vocab = target.embedding.size(0);
  target.hidden = target.embedding.size(1);
  target.layers = layers;
  return target;
}

inline std::vector<std::int64_t> numbers_of(const Safetensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) throw std::runtime_error("no tensor " + name);
  return *whole_numbers(*view);
}

inline Safetensors dflash_expected(const std::string& name) {
  return load_safetensors(kDFlash + name + "/expected.safetensors");
}

/// The batch of a case of speculators or of the gradients.
inline BlockBatch batch_of(const Safetensors& e) {
  BlockBatch batch{.features = tensor_of(e, "features"),
                   .lengths = numbers_of(e, "lengths"),
                   .anchors = {{}, {}},
                   .anchor_tokens = at::tensor(numbers_of(e, "anchors"), at::kLong)};
  for (const std::int64_t place : numbers_of(e, "places")) {
    const std::int64_t first = batch.lengths[0];
    batch.anchors[place < first ? 0 : 1].push_back(place < first ? place : place - first);
  }
  return batch;
}

}  // namespace forerun
