#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "forerun/base/result.h"

namespace forerun {

/// A file that appears under its name complete or not at all: written under a temporary name in the
/// same folder, flushed to disk, then renamed. It replaces an existing file. An object destroyed
/// without commit() leaves nothing.
class AtomicFile {
 public:
  /// @throws FormatError  the folder is missing or not writable, or `path` names something other
  /// than a regular file (a folder, a device), which is never replaced
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// @throws FormatError  path, reason and remedy, e.g. that the disk is full
  void append(std::span<const std::byte> bytes);

  /// Writes over bytes already appended; the end of the file does not move.
  void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Makes the file appear. Nothing can be written afterwards.
  void commit();

  /// Appends `text`, then commits.
  void commit(std::string_view text);

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  [[noreturn]] void fail(std::string_view action, int code) const;
  void end() noexcept;

  std::filesystem::path path_;
  std::string temporary_;
  int fd_ = -1;
  std::uint64_t size_ = 0;  // bytes appended
};

/// Removes the temporary files of all objects that live: for a signal handler that ends the
/// process.
void remove_unfinished_files() noexcept;

}  // namespace forerun
