#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "forerun/models/dflash/dflash_config_json.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/models/internal/output_vocabulary.h"
#include "forerun/models/internal/weight_reader.h"

namespace forerun {

void save_dflash(const std::filesystem::path& folder, const DFlash& model,
                 const nlohmann::json& provenance) {
  nlohmann::json described = dflash_config_json(model.config);
  if (!provenance.is_null()) described["forerun"] = provenance;
  DFlash shared = model;  // the same tensors; only their names are asked for
  std::vector<internal::NamedTensor> tensors =
      internal::named_tensors(weights(shared), "save_dflash");
  if (model.draft_to_target.defined()) {
    tensors.push_back(internal::output_vocabulary_tensor(model.draft_to_target));
  }
  internal::save_model_folder(folder, tensors, described);
}

}  // namespace forerun
