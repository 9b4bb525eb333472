#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "forerun/formats/gguf.h"
#include "forerun/formats/safetensors.h"

namespace forerun {

/// Tensors by name, from either format. Names are the file's own: "blk.0.attn_q.weight" in a GGUF
/// file, "model.layers.0.self_attn.q_proj.weight" in safetensors.
class WeightSource {
 public:
  WeightSource(std::variant<Gguf, Safetensors> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  const TensorView* find(std::string_view name) const;
  const std::vector<TensorView>& tensors() const;

  /// @throws FormatError  there is no such tensor; names the file
  const TensorView& require(std::string_view name) const;

  const Gguf* gguf() const noexcept { return std::get_if<Gguf>(&file_); }  ///< null if safetensors
  const std::string& path() const noexcept { return path_; }

 private:
  std::variant<Gguf, Safetensors> file_;
  std::string path_;
};

/// Opens a GGUF file (told by its first bytes), a safetensors file, an index, or a Hugging Face
/// folder.
/// @throws FormatError  as load_gguf and load_safetensors
WeightSource load_weights(const std::filesystem::path& path);

}  // namespace forerun
