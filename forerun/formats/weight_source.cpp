#include "forerun/formats/weight_source.h"

#include <fmt/format.h>

#include <system_error>

#include "forerun/base/quote.h"

namespace forerun {

const TensorView* WeightSource::find(std::string_view name) const {
  return std::visit([&](const auto& file) { return file.find(name); }, file_);
}

const std::vector<TensorView>& WeightSource::tensors() const {
  return std::visit(
      [](const auto& file) -> const auto& { return file.tensors(); }, file_);
}

const TensorView& WeightSource::require(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor != nullptr && holds_weights(tensor->dtype)) return *tensor;
  if (tensor != nullptr) {
    throw FormatError(
        fmt::format("{}: tensor {} {}", path_, quote(name), why_no_weights(tensor->dtype)));
  }
  throw FormatError(fmt::format(
      "{}: has no tensor {} among its {}; the model is incomplete or of another architecture",
      path_, quote(name), tensors().size()));
}

WeightSource load_weights(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  if (!folder && path.extension() != ".json" && load_file(path).text().starts_with("GGUF")) {
    return {load_gguf(path), path.string()};
  }
  // Whatever else a .gguf file is, that reader says best what is wrong with it.
  if (!folder && path.extension() == ".gguf") return {load_gguf(path), path.string()};
  return {load_safetensors(path), path.string()};
}

}  // namespace forerun
