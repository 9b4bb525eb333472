#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "forerun/base/hub_cache.h"
#include "forerun/formats/gguf.h"
#include "forerun/formats/hf_config.h"
#include "forerun/formats/sampling_metadata.h"
#include "forerun/text.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

RecommendedSampling recommended_in(const fs::path& file, Result<RecommendedSampling> read) {
  if (!read) {
    throw FormatError(fmt::format("{}: {}", file.string(), read.error().message));
  }
  RecommendedSampling out = *std::move(read);
  if (!out.none()) out.file = file.filename().string();
  return out;
}

}  // namespace

RecommendedSampling recommended_sampling(const std::string& path) {
  const Result<std::string> found = find_model(path);
  if (!found) throw UsageError(found.error().message);
  std::error_code ignored;
  if (!fs::is_directory(*found, ignored)) {
    return recommended_in(*found, sampling_of(load_gguf(*found)));
  }
  const fs::path file = fs::path(*found) / "generation_config.json";
  if (!fs::exists(file, ignored)) return {};
  return recommended_in(file, parse_generation_config(load_json_object(file)));
}

}  // namespace forerun
