#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "forerun/models/dflash/dflash_config_json.h"
#include "forerun/models/dflash/dflash_file.h"
#include "forerun/models/internal/weight_reader.h"

namespace forerun {
void save_dflash(const std::filesystem::path& folder, const DFlash& model,
                 const nlohmann::json& provenance) {
  nlohmann::json described = dflash_config_json(model.config);
  if (!provenance.is_null()) described["forerun"] = provenance;
  std::vector<internal::NamedTensor> tensors;
  DFlash shared = model;  // the same tensors; only their names are asked for
  for (const ModelWeight& w : weights(shared)) {
    if (!w.tensor->defined() || w.tensor->sizes() != at::IntArrayRef(w.shape)) {
      throw std::invalid_argument(
          fmt::format("save_dflash: weight {} is not of its config's shape", w.name));
    }
    tensors.push_back({w.name, *w.tensor});
  }
  if (model.draft_to_target.defined()) {
    const at::Tensor ids = model.draft_to_target.to(at::kCPU);
    tensors.push_back({"d2t", ids - at::arange(ids.size(0))});
  }
  internal::save_model_folder(folder, tensors, described);
}

}  // namespace forerun
