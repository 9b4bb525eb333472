#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/base/mapped_file.h"
#include "forerun/base/result.h"
#include "forerun/formats/tensor_view.h"

namespace forerun {

/// Tensors of one safetensors file or of a sharded model; F32, F16 and BF16, and I64, I32 and BOOL
/// for ids and flags. Those of other types are there by name and size, for nobody to read
/// (is_read). Tensors point into the files' bytes; an object from load_safetensors keeps its files
/// mapped. Source: README.md of huggingface/safetensors, "Format".
class Safetensors {
 public:
  using Metadata = std::map<std::string, std::string>;

  Safetensors() = default;
  Safetensors(std::vector<TensorView> tensors, Metadata metadata,
              std::vector<std::shared_ptr<const MappedFile>> files = {});

  const TensorView* find(std::string_view name) const;
  const std::vector<TensorView>& tensors() const noexcept { return tensors_; }  ///< as they lie
  const Metadata& metadata() const noexcept { return metadata_; }
  /// Keeps the files mapped; null if parsed from memory.
  std::shared_ptr<const void> mapping() const;

 private:
  std::vector<TensorView> tensors_;
  Metadata metadata_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// Reads one file from memory; the result points into `file`.
/// Errors: not safetensors (says what it seems to be), truncated (says how many bytes are missing),
/// malformed header, a dtype that the format does not have (names the tensor), a shape that does
/// not fit its bytes, tensors that overlap or leave gaps.
Result<Safetensors> parse_safetensors(std::span<const std::byte> file);

/// Reads what `path` names: a file; an index (model.safetensors.index.json) with its shards beside
/// it; or a folder with either. With an index, its weight_map decides what tensors there are and
/// where each one lies; shards are named by plain file names.
/// @throws FormatError  the file at fault, then the reason
Safetensors load_safetensors(const std::filesystem::path& path);

}  // namespace forerun
