#include "forerun/models/medusa/medusa_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string>

#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/internal/output_vocabulary.h"
#include "forerun/models/internal/weight_reader.h"
#include "forerun/models/medusa/medusa_config_json.h"

namespace forerun {
namespace {

void check_target(const MedusaConfig& c, const DecoderConfig& target) {
  if (c.hidden == target.hidden && c.vocab == target.vocab) return;
  throw FormatError(fmt::format(
      "the heads were made for a target of hidden size {} and vocabulary {}, this one has {} and "
      "{}; use the target they were trained with",
      c.hidden, c.vocab, target.hidden, target.vocab));
}

}  // namespace

Medusa load_medusa(const std::filesystem::path& folder, const DecoderLm& target,
                   at::ScalarType type) {
  const HfConfig file = load_hf_config(folder);
  const auto fail = [&](const std::string& why) {
    throw FormatError(folder.string() + ": " + why);
  };
  const Result<MedusaConfig> config = parse_medusa_config(file.config, target.config.layers);
  if (!config) fail(config.error().message);
  const Safetensors tensors = load_safetensors(folder);
  Medusa m(*config);
  try {
    check_target(*config, target.config);
    internal::WeightReader source(tensors, type, "drafter");
    for (const ModelWeight& w : weights(m)) *w.tensor = source.weight(w.name, w.shape);
    m.draft_to_target =
        internal::read_output_vocabulary(source, config->vocab, config->draft_vocab);
    source.expect_nothing_left();
  } catch (const FormatError& e) {
    fail(e.what());
  }
  m.embedding = target.embedding;
  return m;
}

void save_medusa(const std::filesystem::path& folder, const Medusa& model,
                 const nlohmann::json& provenance) {
  Medusa shared = model;  // the same tensors; only their names are asked for
  internal::save_network_folder(folder, weights(shared), model.draft_to_target,
                                medusa_config_json(model.config), provenance, "save_medusa");
}

}  // namespace forerun
