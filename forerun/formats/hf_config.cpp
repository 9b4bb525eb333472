#include "forerun/formats/hf_config.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "forerun/base/json_text.h"
#include "forerun/base/mapped_file.h"

namespace forerun {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& message) {
  throw FormatError(fmt::format("{}: {}", path.string(), message));
}

const json* find_ids(const json& object) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find("eos_token_id");
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<Token> id_of(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto id = value.get<std::uint64_t>();
  if (id > std::uint64_t{std::numeric_limits<Token>::max()}) return std::nullopt;
  return static_cast<Token>(id);
}

}  // namespace

Result<std::vector<Token>> parse_end_of_sequence(const json& config, const json& generation) {
  const json* ids = find_ids(generation);
  if (ids == nullptr) ids = find_ids(config);
  if (ids == nullptr && config.is_object() && config.contains("text_config")) {
    ids = find_ids(config["text_config"]);
  }
  std::vector<Token> out;
  if (ids == nullptr) return out;
  const auto bad = [](const json& value) {
    return Error{fmt::format("eos_token_id holds {}, expected token ids from 0 to {}",
                             value.is_number() ? value.dump() : value.type_name(),
                             std::numeric_limits<Token>::max())};
  };
  if (!ids->is_array()) {
    const auto id = id_of(*ids);
    if (!id) return bad(*ids);
    out.push_back(*id);
    return out;
  }
  for (const json& value : *ids) {
    const auto id = id_of(value);
    if (!id) return bad(value);
    out.push_back(*id);
  }
  return out;
}

json load_json_object(const fs::path& path) {
  const MappedFile file = load_file(path);
  Result<json> parsed = parse_json(file.text());
  if (!parsed) fail(path, parsed.error().message);
  if (!parsed->is_object()) {
    fail(path, fmt::format("holds a JSON {}, expected an object; download it again",
                           parsed->type_name()));
  }
  return *std::move(parsed);
}

HfConfig load_hf_config(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    fail(folder, "is not a folder; give the folder of a Hugging Face model, or a GGUF file");
  }
  const fs::path generation = folder / "generation_config.json";
  HfConfig out{
      .config = load_json_object(folder / "config.json"),
      .generation = fs::exists(generation, ignored) ? load_json_object(generation) : json::object(),
      .end_of_sequence = {},
      .end_file = {}};
  const fs::path from = find_ids(out.generation) != nullptr ? generation : folder / "config.json";
  Result<std::vector<Token>> ids = parse_end_of_sequence(out.config, out.generation);
  if (!ids) fail(from, ids.error().message);
  out.end_file = from.string();
  out.end_of_sequence = *std::move(ids);
  return out;
}

}  // namespace forerun
