#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/core/token.h"
#include "forerun/formats/safetensors.h"

namespace forerun {

/// What forerun distill keeps beside the shards of a folder: whose answers they are.
inline constexpr const char* kDistillManifest = "distill.json";

/// A tensor of one row of numbers. T is a type of `dtype`'s size.
/// Errors: none of this name, another dtype or shape, not aligned for T.
template <class T>
Result<std::span<const T>> numbers_of(const Safetensors& file, const char* name, DType dtype) {
  const TensorView* tensor = file.find(name);
  const bool fits = tensor != nullptr && tensor->dtype == dtype && tensor->shape.size() == 1;
  if (!fits) {
    return Error{fmt::format("no tensor '{}' of one row of {}; this is no token shard", name,
                             name_of(dtype))};
  }
  // safetensors does not promise alignment, but files of the reference writers and of ours have it.
  if (reinterpret_cast<std::uintptr_t>(tensor->bytes.data()) % alignof(T) != 0) {
    return Error{fmt::format("tensor '{}' is not aligned; the file is damaged", name)};
  }
  return std::span(reinterpret_cast<const T*>(tensor->bytes.data()),
                   static_cast<std::size_t>(tensor->shape[0]));
}

/// A prompt and its answer, as training reads them.
struct TokenDocument {
  std::int64_t id = 0;        ///< tells the documents of a folder apart
  std::int64_t prompt = 0;    ///< the first so many tokens are the prompt
  std::vector<Token> tokens;  ///< prompt and answer
};

/// Writes documents as one shard: a safetensors file with "tokens" I32 [n], one document behind the
/// other, "ends" I64 [documents] (behind the last token of each), "prompts" I64 and "ids" I64.
/// @throws std::invalid_argument  a prompt longer than its document
/// @throws FormatError            as AtomicFile
void write_token_shard(const std::filesystem::path& path, std::span<const TokenDocument> documents,
                       const Safetensors::Metadata& metadata = {});

/// The documents of all shards (*.safetensors) in a folder, memory-mapped.
class TokenShards {
 public:
  /// A folder without shards gives no documents.
  /// @throws FormatError  a shard that is damaged; names the file
  static TokenShards load(const std::filesystem::path& folder);

  std::size_t size() const noexcept { return documents_.size(); }
  std::span<const Token> tokens(std::size_t document) const { return documents_[document].tokens; }
  std::int64_t prompt(std::size_t document) const { return documents_[document].prompt; }
  std::int64_t id(std::size_t document) const { return documents_[document].id; }
  std::size_t shards() const noexcept { return files_.size(); }
  /// Of the first shard.
  const Safetensors::Metadata& metadata() const { return metadata_; }

 private:
  struct Document {
    std::span<const Token> tokens;
    std::int64_t prompt, id;
  };
  std::vector<Safetensors> files_;
  std::vector<Document> documents_;
  Safetensors::Metadata metadata_;
};

}  // namespace forerun
