#include "forerun/api/beside_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "forerun/base/gguf_parts.h"

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
  return without_gguf_ending(path).string().append(ending);
}

std::string state_of_folder(const std::string& folder, std::string_view settings) {
  std::error_code failed;
  if (!fs::is_regular_file(fs::path(folder) / settings, failed)) return "";
  std::vector<std::string> files;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const fs::path& path = at->path();
    if (path.extension() != ".safetensors" && path.filename() != settings) continue;
    std::error_code unknown;
    files.push_back(fmt::format("{}\n{}\n{}\n", path.filename().string(),
                                fs::file_size(path, unknown),
                                fs::last_write_time(path, unknown).time_since_epoch().count()));
  }
  if (files.size() < 2) return "";
  std::sort(files.begin(), files.end());
  return fmt::format("{}", fmt::join(files, ""));
}

}  // namespace forerun
