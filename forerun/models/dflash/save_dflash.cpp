#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "forerun/models/dflash/dflash_config_json.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/models/internal/output_vocabulary.h"

namespace forerun {

void save_dflash(const std::filesystem::path& folder, const DFlash& model,
                 const nlohmann::json& provenance) {
  DFlash shared = model;  // the same tensors; only their names are asked for
  internal::save_network_folder(folder, weights(shared), model.draft_to_target,
                                dflash_config_json(model.config), provenance, "save_dflash");
}

}  // namespace forerun
