#include "forerun/cli/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "forerun/base/gguf_parts.h"
#include "forerun/base/hub_cache.h"
#include "forerun/cli/interrupt.h"
#include "forerun/cli/terminal.h"
#include "forerun/common.h"
#include "forerun/method.h"

namespace forerun::cli {
namespace {

namespace fs = std::filesystem;

// By device and inode, so that links and other spellings count.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  if (fs::equivalent(a, b, failed)) return true;
  return !fs::exists(a, failed) && !fs::exists(b, failed) &&
         fs::weakly_canonical(a, failed) == fs::weakly_canonical(b, failed);
}

// What models, tokenizers and profiles are made of.
bool is_part_of_a_model(const fs::path& file) {
  constexpr std::array<std::string_view, 8> kEndings = {".json", ".safetensors", ".gguf", ".jinja",
                                                        ".txt",  ".bin",         ".arpa", ".order"};
  const std::string ending = file.extension().string();
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

std::vector<fs::path> files_of(const std::string& input) {
  std::error_code failed;
  if (!fs::is_directory(input, failed)) return gguf_files(input);
  std::vector<fs::path> out;
  for (fs::recursive_directory_iterator at(input, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (is_part_of_a_model(at->path())) out.push_back(at->path());
  }
  return out;
}

}  // namespace

std::string local_model(const std::string& name) {
  const Result<std::string> path = find_model(name);
  if (!path) throw UsageError(path.error().message);
  return *path;
}

void expect_path(const std::string& path) {
  std::error_code failed;
  if (fs::exists(path, failed)) return;
  throw UsageError(fmt::format("{}: no such file or folder{}", path, download_hint(path)));
}

void expect_apart(const std::vector<Output>& outputs, const std::vector<std::string>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Output& out = outputs[i];
    for (std::size_t j = 0; j < i; ++j) {
      if (!same_file(out.path, outputs[j].path)) continue;
      throw UsageError(
          fmt::format("{} and {} are one file, {}: name two", outputs[j].flag, out.flag, out.path));
    }
    for (const std::string& input : inputs) {
      if (input.empty()) continue;
      for (const fs::path& file : files_of(input)) {
        if (!same_file(out.path, file)) continue;
        throw UsageError(
            fmt::format("{} {} would replace {}, which the command reads: name "
                        "another file",
                        out.flag, out.path, file.string()));
      }
    }
  }
}

std::vector<std::string> paths_of_drafter(const std::string& name) {
  std::vector<std::string> out;
  for (const std::string& part : drafter_parts(name)) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos) continue;
    // KIND:PATH[:OPTION=VALUE...]; a path may hold colons, and a value be a path.
    const std::string rest = part.substr(colon + 1);
    for (std::size_t end = rest.find(':');; end = rest.find(':', end + 1)) {
      out.push_back(rest.substr(0, end));
      const std::size_t value = out.back().rfind('=');
      if (value != std::string::npos) out.push_back(out.back().substr(value + 1));
      if (end == std::string::npos) break;
    }
  }
  return out;
}

std::string read_input(const std::string& path, const std::string& what) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::is_directory(status)) {
    throw UsageError(fmt::format("the {} '{}' is a folder: name a file", what, path));
  }
  const EndsAtFirst waiting;  // for a pipe's writer, say
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UsageError(fmt::format("cannot open the {} '{}'", what, path));
  return read_input(in, path, what);
}

std::string read_input(std::istream& in, const std::string& path, const std::string& what) {
  const EndsAtFirst waiting;
  constexpr std::size_t kMost = std::size_t{256} << 20;  // of a device that never ends
  std::string text;
  std::array<char, 1 << 16> part;
  while (in.read(part.data(), part.size()), in.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() <= kMost) continue;
    throw UsageError(fmt::format("the {} '{}' holds more than {} MiB: name a smaller one", what,
                                 path, kMost >> 20));
  }
  return text;
}

}  // namespace forerun::cli
