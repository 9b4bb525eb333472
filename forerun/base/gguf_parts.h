#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace forerun {

/// What the name of a part of a split GGUF file says: "DIR/model-00002-of-00005.gguf", as
/// llama-gguf-split and Hugging Face's repositories have it.
struct GgufPartName {
  std::string stem;  ///< "DIR/model"
  int part = 1;      ///< 1..count
  int count = 1;     ///< 1..99999

  std::filesystem::path file(int number) const;  ///< of part `number`
};

/// None: the name is not of that form, or its numbers are not.
std::optional<GgufPartName> gguf_part_name(const std::filesystem::path& path);

/// The files that a path stands for: all parts, in order, where it names one, and itself else.
/// They need not exist.
std::vector<std::filesystem::path> gguf_files(const std::filesystem::path& path);

/// "DIR/model" of "DIR/model.gguf" and of every part of "DIR/model-00001-of-00005.gguf"; other
/// paths as they are.
std::filesystem::path without_gguf_ending(std::filesystem::path path);

}  // namespace forerun
