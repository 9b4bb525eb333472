#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "forerun/base/mapped_file.h"
#include "forerun/base/result.h"
#include "forerun/formats/gguf_value.h"
#include "forerun/formats/tensor_view.h"

namespace forerun {

/// A model in a GGUF file (version 2 or 3, little-endian), or in the parts of a split one: metadata
/// and tensors, in file order. Names, strings and tensors point into the files' bytes. Copies are
/// cheap enough to hand around, and a Gguf from load_gguf keeps its files mapped. Source:
/// docs/gguf.md in ggml-org/ggml.
class Gguf {
 public:
  struct Entry {
    std::string_view key;
    GgufValue value;
  };

  std::uint32_t version() const noexcept { return version_; }
  const std::string& path() const noexcept { return path_; }  ///< empty if parsed from memory
  int part() const noexcept { return part_; }                 ///< 1..parts()
  int parts() const noexcept { return parts_; }               ///< that the model is split into
  const std::vector<Entry>& metadata() const noexcept { return metadata_; }
  const std::vector<TensorView>& tensors() const noexcept { return tensors_; }

  /// Keeps the files mapped; null if parsed from memory.
  std::shared_ptr<const void> mapping() const noexcept { return files_; }

  const TensorView* find(std::string_view tensor) const;
  const GgufValue* find_value(std::string_view key) const;

  /// The value of `key` as a T (see gguf_cast); none where it is missing or not a T.
  template <class T>
  std::optional<T> get(std::string_view key) const {
    Result<T> value = read<T>(key);
    return value ? std::optional<T>(*std::move(value)) : std::nullopt;
  }

  /// Error: missing, or not a T; names the key, the type found and the type wanted.
  template <class T>
  Result<T> read(std::string_view key) const {
    const GgufValue* value = find_value(key);
    if (value == nullptr) return missing(key);
    Result<T> out = gguf_cast<T>(*value);
    if (!out) return mistyped(key, out.error());
    return out;
  }

  /// As read, but `fallback` where the key is missing. A value of another type is an error.
  template <class T>
  Result<T> read_or(std::string_view key, T fallback) const {
    if (find_value(key) == nullptr) return fallback;
    return read<T>(key);
  }

  /// @throws FormatError  where read gives an Error: the file's path, then what it says
  template <class T>
  T require(std::string_view key) const {
    Result<T> value = read<T>(key);
    if (!value) throw_error(value.error());
    return *std::move(value);
  }

 private:
  friend class GgufParser;
  friend Gguf load_gguf(const std::filesystem::path& path);

  static Gguf load_part(const std::filesystem::path& path, std::vector<MappedFile>& files);
  void append(Gguf&& part);

  static Error missing(std::string_view key);
  static Error mistyped(std::string_view key, const Error& why);
  [[noreturn]] void throw_error(const Error& error) const;

  std::uint32_t version_ = 0;
  std::string path_;
  int part_ = 1, parts_ = 1;
  std::shared_ptr<const std::vector<MappedFile>> files_;
  std::vector<Entry> metadata_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, std::size_t> entry_index_;  // keys lie in the files' bytes
  std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

/// Reads a GGUF file from memory; the result points into `file`. A part of a split model is read as
/// it is: parts() tells.
/// Errors: not GGUF (says what it seems to be), another version or byte order, truncated (says how
/// many bytes are missing), a type or quantisation unknown here, sizes or offsets that do not fit
/// the file or each other, a name twice.
Result<Gguf> parse_gguf(std::span<const std::byte> file);

/// Reads a GGUF file, or all parts of a split one, of which `path` is the first: its metadata is
/// the model's, and the tensors are those of all parts.
/// @throws FormatError  path, then what MappedFile::open or parse_gguf says; another part than the
///                      first, a name that is not a part's, a part that is missing or of another
///                      split, a tensor that two parts hold
Gguf load_gguf(const std::filesystem::path& path);

}  // namespace forerun
