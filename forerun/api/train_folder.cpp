#include "forerun/api/train_folder.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "forerun/forerun.h"
#include "forerun/formats/json_text.h"

namespace forerun {

void expect_own_folder(const std::filesystem::path& out) {
  if (std::filesystem::exists(out / "checkpoint.safetensors")) return;
  std::ifstream in(out / "config.json", std::ios::binary);
  const bool model = in || std::filesystem::exists(out / "model.safetensors");
  if (!model) return;
  const Result<nlohmann::json> config =
      parse_json(std::string(std::istreambuf_iterator<char>(in), {}));
  if (config && config->is_object() && config->contains("forerun")) return;
  throw UsageError(
      fmt::format("{} holds another model, which training would overwrite: choose "
                  "another --out",
                  out.string()));
}

}  // namespace forerun
