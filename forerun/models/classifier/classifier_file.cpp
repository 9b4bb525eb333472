#include "forerun/models/classifier/classifier_file.h"

#include <vector>

#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/internal/weight_reader.h"
#include "forerun/models/weights_digest.h"

namespace forerun {

Classifier load_classifier(const std::filesystem::path& folder, at::ScalarType type) {
  try {
    const HfConfig file = load_hf_config(folder);
    const Result<ClassifierConfig> config = parse_classifier_config(file.config);
    if (!config) throw FormatError("config.json: " + config.error().message);
    Classifier m;
    m.config = *config;
    const Safetensors tensors = load_safetensors(folder);
    internal::WeightReader source(tensors, type, "classifier");
    for (const ModelWeight& w : weights(m)) *w.tensor = source.weight(w.name, w.shape);
    source.expect_nothing_left();
    return m;
  } catch (const FormatError& e) {
    const std::string why = e.what();
    throw FormatError(why.starts_with(folder.string()) ? why : folder.string() + ": " + why);
  }
}

void save_classifier(const std::filesystem::path& folder, const Classifier& model,
                     const nlohmann::json& provenance) {
  nlohmann::json config = classifier_config_json(model.config);
  if (!provenance.is_null()) config["forerun"] = provenance;
  std::vector<internal::NamedTensor> tensors;
  Classifier same = model;
  for (const ModelWeight& w : weights(same)) tensors.push_back({w.name, *w.tensor});
  internal::save_model_folder(folder, tensors, config);
}

std::string digest_of(const Classifier& model) {
  Classifier same = model;
  return digest_of(weights(same));
}

}  // namespace forerun
