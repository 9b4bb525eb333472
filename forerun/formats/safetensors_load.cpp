#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "forerun/base/json_text.h"
#include "forerun/base/quote.h"
#include "forerun/formats/safetensors.h"

namespace forerun {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void fail(const fs::path& path, const std::string& message) {
  throw FormatError(fmt::format("{}: {}", printable(path.string(), 4096), message));
}

// What cannot be looked at does not exist here; opening it gives the reason.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Safetensors load_one(const fs::path& path) {
  auto file = std::make_shared<const MappedFile>(load_file(path));
  const Result<Safetensors> parsed = parse_safetensors(file->bytes());
  if (!parsed) fail(path, parsed.error().message);
  return {parsed->tensors(), parsed->metadata(), {std::move(file)}};
}

// An index comes from strangers: a shard must lie beside it, whatever the name says.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

// Tensor names by shard.
std::map<std::string, std::vector<std::string>> read_weight_map(const fs::path& index) {
  const MappedFile file = load_file(index);
  const Result<json> parsed = parse_json(file.text());
  if (!parsed) fail(index, parsed.error().message);
  const auto found = parsed->is_object() ? parsed->find("weight_map") : parsed->end();
  if (!parsed->is_object() || found == parsed->end() || !found->is_object() || found->empty()) {
    fail(index, "has no weight_map of tensor names to files; download it again");
  }
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [name, shard] : found->items()) {
    if (!shard.is_string()) {
      fail(index, fmt::format("weight_map {} is not a file name; download it again", quote(name)));
    }
    const auto& file_name = shard.get_ref<const std::string&>();
    if (!is_plain_file_name(file_name)) {
      fail(index,
           fmt::format("weight_map puts {} in {}, which is not a plain file name; shards lie "
                       "beside their index",
                       quote(name), quote(file_name)));
    }
    out[file_name].push_back(name);
  }
  return out;
}

Safetensors load_sharded(const fs::path& index) {
  std::vector<TensorView> tensors;
  std::vector<std::shared_ptr<const MappedFile>> files;
  Safetensors::Metadata metadata;
  for (const auto& [shard, names] : read_weight_map(index)) {
    const fs::path path = index.parent_path() / shard;
    if (!is_there(path)) {
      fail(path, fmt::format("this shard is missing, {} holds {} tensors in it; download it",
                             index.filename().string(), names.size()));
    }
    auto file = std::make_shared<const MappedFile>(load_file(path));
    const Result<Safetensors> parsed = parse_safetensors(file->bytes());
    if (!parsed) fail(path, parsed.error().message);
    for (const std::string& name : names) {
      const TensorView* tensor = parsed->find(name);
      if (tensor == nullptr) {
        fail(path, fmt::format("has no tensor {}, which {} puts here; download both again",
                               quote(name), index.filename().string()));
      }
      tensors.push_back(*tensor);
    }
    metadata.insert(parsed->metadata().begin(), parsed->metadata().end());
    files.push_back(std::move(file));
  }
  return {std::move(tensors), std::move(metadata), std::move(files)};
}

}  // namespace

Safetensors load_safetensors(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    return path.extension() == ".json" ? load_sharded(path) : load_one(path);
  }
  if (is_there(path / kIndex)) return load_sharded(path / kIndex);
  if (is_there(path / kSingle)) return load_one(path / kSingle);
  // With a description the path is right and the weights are not there.
  const char* remedy = is_there(path / "config.json")
                           ? "its weights are missing: copy them there too, or download them"
                           : "give the folder of a Hugging Face model";
  fail(path, fmt::format("has neither {} nor {}; {}", kSingle, kIndex, remedy));
}

}  // namespace forerun
