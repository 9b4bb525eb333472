#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <fstream>

#include "forerun/base/quote.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/safetensors.h"
#include "forerun/models/internal/weight_reader.h"
#include "forerun/models/mar/mar_file.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

// torch.save writes a ZIP archive, and wrote a bare pickle before.
bool is_pickle(const fs::path& path) {
  char first[4] = {};
  std::ifstream(path, std::ios::binary).read(first, sizeof first);
  const std::string_view begins(first, sizeof first);
  return begins == "PK\x03\x04" || (begins[0] == '\x80' && begins[1] >= 2 && begins[1] <= 5);
}

Mar load(const fs::path& path, at::ScalarType type) {
  if (!fs::is_directory(path)) {
    if (fs::exists(path) && is_pickle(path)) {
      throw FormatError(
          "this is a pickle, which could run code when it is read; tools/convert_mar.py makes a "
          "folder of it that can be loaded");
    }
    throw FormatError("a folder of config.json and model.safetensors is expected");
  }
  const Result<MarConfig> config = parse_mar_config(load_hf_config(path).config);
  if (!config) throw FormatError("config.json: " + config.error().message);
  const Safetensors file = load_safetensors(path / "model.safetensors");
  internal::WeightReader reader(file, type, "MAR network");
  Mar m = empty_mar(*config);
  for (const ModelWeight& w : weights(m)) *w.tensor = reader.weight(w.name, w.shape);
  reader.expect_nothing_left();
  return m;
}

}  // namespace

bool holds_mar(const fs::path& path) noexcept {
  try {
    return fs::is_directory(path) && is_mar(load_hf_config(path).config);
  } catch (const std::exception&) {
    return false;
  }
}

Mar load_mar(const fs::path& path, at::ScalarType type) {
  try {
    return load(path, type);
  } catch (const FormatError& e) {
    const std::string why = e.what();
    throw FormatError(why.starts_with(path.string()) ? why : path.string() + ": " + why);
  }
}

void save_mar(const fs::path& folder, const Mar& model, const nlohmann::json& provenance,
              at::ScalarType type) {
  nlohmann::json described = mar_config_json(model.config);
  if (!provenance.is_null()) described["forerun"] = provenance;
  std::vector<internal::NamedTensor> tensors;
  Mar shared = model;  // the same tensors; only their names are asked for
  for (const ModelWeight& w : weights(shared)) tensors.push_back({w.name, *w.tensor, type});
  internal::save_model_folder(folder, tensors, described);
}

}  // namespace forerun
