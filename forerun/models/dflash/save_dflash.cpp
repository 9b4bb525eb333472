#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "forerun/formats/atomic_file.h"
#include "forerun/formats/safetensors_write.h"
#include "forerun/models/dflash/dflash_config_json.h"
#include "forerun/models/dflash/dflash_file.h"

namespace forerun {
namespace {

std::span<const std::byte> bytes_of(const at::Tensor& t) {
  return {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()};
}

}  // namespace

void save_dflash(const std::filesystem::path& folder, const DFlash& model,
                 const nlohmann::json& provenance) {
  nlohmann::json described = dflash_config_json(model.config);
  if (!provenance.is_null()) described["forerun"] = provenance;
  const std::string config = described.dump(2) + "\n";
  std::vector<at::Tensor> kept;  // what the views point into
  std::vector<TensorView> views;
  const auto add = [&](std::string name, DType type, at::Tensor t) {
    views.push_back({std::move(name), type, t.sizes().vec(), bytes_of(t)});
    kept.push_back(std::move(t));
  };
  DFlash shared = model;  // the same tensors; only their names are asked for
  for (const DFlashWeight& w : weights(shared)) {
    if (!w.tensor->defined() || w.tensor->sizes() != at::IntArrayRef(w.shape)) {
      throw std::invalid_argument(
          fmt::format("save_dflash: weight {} is not of its config's shape", w.name));
    }
    add(w.name, DType::kBF16, w.tensor->detach().to(at::kCPU, at::kBFloat16).contiguous());
  }
  if (model.draft_to_target.defined()) {
    const at::Tensor ids = model.draft_to_target.to(at::kCPU);
    add("d2t", DType::kI64, (ids - at::arange(ids.size(0))).contiguous());
  }
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw FormatError(folder.string() + ": cannot be made: " + failed.message());
  }
  // Weights first: a folder with a config alone would look like half a checkpoint.
  write_safetensors(folder / "model.safetensors", views, {{"format", "pt"}});
  AtomicFile file(folder / "config.json");
  file.append(std::as_bytes(std::span(config)));
  file.commit();
}

}  // namespace forerun
