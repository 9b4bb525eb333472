#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "forerun/base/result.h"

namespace forerun {

/// A file mapped read-only into memory; unmapped when the object goes. Move-only.
/// Pages are read when touched and shared with other processes. Another process that truncates the
/// file meanwhile makes a later touch fatal (SIGBUS), as with any mapping: replace model files by
/// renaming.
class MappedFile {
 public:
  /// Errors (without the path): missing, a folder or device, not readable, empty.
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

/// @throws FormatError  path and reason, where MappedFile::open gives an Error
MappedFile load_file(const std::filesystem::path& path);

}  // namespace forerun
