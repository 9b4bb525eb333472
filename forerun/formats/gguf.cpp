#include "forerun/formats/gguf.h"

#include <fmt/format.h>

#include "forerun/base/quote.h"

namespace forerun {

const TensorView* Gguf::find(std::string_view tensor) const {
  const auto found = tensor_index_.find(tensor);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* Gguf::find_value(std::string_view key) const {
  const auto found = entry_index_.find(key);
  return found == entry_index_.end() ? nullptr : &metadata_[found->second].value;
}

Error Gguf::missing(std::string_view key) {
  return {fmt::format("metadata {} is missing; convert the model again", quote(key))};
}

Error Gguf::mistyped(std::string_view key, const Error& why) {
  return {fmt::format("metadata {} {}", quote(key), why.message)};
}

void Gguf::throw_error(const Error& error) const {
  throw FormatError(path_.empty() ? error.message : fmt::format("{}: {}", path_, error.message));
}

Gguf load_gguf(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(load_file(path));
  Result<Gguf> parsed = parse_gguf(file->bytes());
  if (!parsed) throw FormatError(fmt::format("{}: {}", path.string(), parsed.error().message));
  Gguf out = *std::move(parsed);
  out.path_ = path.string();
  out.file_ = std::move(file);
  return out;
}

}  // namespace forerun
