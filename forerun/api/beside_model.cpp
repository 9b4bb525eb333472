#include "forerun/api/beside_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/formats/hf_config.h"

namespace forerun {

namespace fs = std::filesystem;

std::string beside_model(const std::string& model_path, std::string_view ending) {
  fs::path path = model_path;
  std::error_code failed;
  if (const fs::path whole = fs::absolute(path, failed); !failed) path = whole;
  if (path.filename() == "." || path.filename() == "..") {
    if (const fs::path plain = fs::weakly_canonical(path, failed); !failed) path = plain;
  }
  if (!path.has_filename()) path = path.parent_path();  // a folder's name ends in a slash
  if (path.extension() == ".gguf") path.replace_extension();
  return path.string().append(ending);
}

std::string network_in(const std::string& folder) {
  std::error_code failed;
  if (!fs::is_regular_file(fs::path(folder) / "config.json", failed)) return "";
  const nlohmann::json config = load_json_object(fs::path(folder) / "config.json");
  const auto text = [](const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  if (const auto kinds = config.find("architectures");
      kinds != config.end() && kinds->is_array() && !kinds->empty()) {
    return text(kinds->front());
  }
  const auto type = config.find("model_type");
  return type != config.end() ? text(*type) : "";
}

}  // namespace forerun
