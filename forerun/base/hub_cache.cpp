#include "forerun/base/hub_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "forerun/base/gguf_parts.h"
#include "forerun/base/quote.h"

namespace forerun {
namespace {

namespace fs = std::filesystem;

// A path; "~" at its beginning is the home, as huggingface_hub has it.
fs::path environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return "";
  const char* home = std::getenv("HOME");
  const std::string_view text = value;
  if (home != nullptr && (text == "~" || text.starts_with("~/")))
    return home + std::string(text.substr(1));
  return text;
}

bool is_there(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

// Of a repository, or of its owner.
bool is_hub_word(std::string_view text) {
  return !text.empty() && text.size() <= 96 && text.front() != '.' && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-');
         });
}

struct HubName {
  std::string owner, repository, file;  ///< file: empty, or a path within
};

std::optional<HubName> hub_name(std::string_view name) {
  const std::size_t first = name.find('/');
  if (first == name.npos) return std::nullopt;
  const std::size_t second = std::min(name.find('/', first + 1), name.size());
  HubName out{.owner = std::string(name.substr(0, first)),
              .repository = std::string(name.substr(first + 1, second - first - 1)),
              .file = std::string(name.substr(std::min(second + 1, name.size())))};
  if (!is_hub_word(out.owner) || !is_hub_word(out.repository)) return std::nullopt;
  return out;
}

// The commit that a branch is at.
std::string commit_of(const fs::path& ref) {
  std::ifstream in(ref, std::ios::binary);
  std::string text(64, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return is_hub_word(text) ? text : "";
}

std::optional<fs::path> snapshot_of(const fs::path& repository) {
  const std::string commit = commit_of(repository / "refs" / "main");
  if (commit.empty() || !is_there(repository / "snapshots" / commit)) return std::nullopt;
  return repository / "snapshots" / commit;
}

// The GGUF models of a snapshot, in order: first parts alone, and no projectors of pictures.
std::vector<fs::path> models_in(const fs::path& snapshot) {
  constexpr int kDeepest = 3;
  std::vector<fs::path> out;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(snapshot, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at.depth() >= kDeepest) at.disable_recursion_pending();
    const fs::path& path = at->path();
    if (path.extension() != ".gguf" || path.filename().string().starts_with("mmproj")) continue;
    const auto part = gguf_part_name(path);
    if (!part || part->part == 1) out.push_back(path);
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool has_safetensors(const fs::path& snapshot) {
  return is_there(snapshot / "model.safetensors") ||
         is_there(snapshot / "model.safetensors.index.json");
}

Result<std::string> model_in(const fs::path& snapshot, const std::string& name) {
  if (has_safetensors(snapshot)) return snapshot.string();
  const std::vector<fs::path> models = models_in(snapshot);
  if (models.empty()) return snapshot.string();
  if (models.size() == 1) return models.front().string();
  constexpr std::size_t kShown = 20;
  std::vector<std::string> names;
  for (const fs::path& m : models) {
    if (names.size() == kShown) break;
    names.push_back(printable(m.lexically_relative(snapshot).string(), 200));
  }
  return Error{fmt::format("{} holds {} GGUF models: {}{}; name one: {}", printable(name, 400),
                           models.size(), fmt::join(names, ", "),
                           models.size() > kShown ? ", ..." : "",
                           hub_name(name) ? printable(name, 400) + "/" + names.front()
                                          : printable(models.front().string(), 400))};
}

// A folder of the cache itself.
bool is_cached_repository(const fs::path& path) {
  fs::path folder = path;
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename().string().starts_with("models--") && is_there(folder / "snapshots");
}

}  // namespace

fs::path hub_cache() {
  for (const char* own : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {  // the second is older
    if (const fs::path path = environment(own); !path.empty()) return path;
  }
  if (const fs::path home = environment("HF_HOME"); !home.empty()) return home / "hub";
  if (const fs::path cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    return cache / "huggingface" / "hub";
  }
  const fs::path home = environment("HOME");
  return home.empty() ? home : home / ".cache" / "huggingface" / "hub";
}

Result<std::string> find_model(const std::string& name) {
  if (is_there(name)) {
    if (!is_cached_repository(name)) return name;
    const auto snapshot = snapshot_of(name);
    return snapshot ? model_in(*snapshot, name) : Result<std::string>(name);
  }
  const auto hub = hub_name(name);
  const fs::path cache = hub_cache();
  if (!hub || cache.empty()) return name;
  const auto snapshot =
      snapshot_of(cache / fmt::format("models--{}--{}", hub->owner, hub->repository));
  if (!snapshot) return name;
  if (hub->file.empty()) return model_in(*snapshot, name);
  const fs::path file = (*snapshot / hub->file).lexically_normal();
  const bool inside = *file.lexically_relative(snapshot->lexically_normal()).begin() != "..";
  return inside && is_there(file) ? file.string() : name;
}

std::string download_hint(std::string_view name) {
  const auto hub = hub_name(name);
  // "folder/model.gguf" is a file.
  if (!hub || (hub->file.empty() && hub->repository.ends_with(".gguf"))) return "";
  return fmt::format("; a model of that name on Hugging Face is there after: hf download {}/{}{}",
                     hub->owner, hub->repository, hub->file.empty() ? "" : " " + hub->file);
}

}  // namespace forerun
