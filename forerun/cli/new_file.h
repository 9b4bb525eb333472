#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace forerun::cli {

/// A text file that appears under its name complete or not at all. Made before the work whose
/// result it will hold, so that a folder that cannot be written is found out at once; one that goes
/// without commit() leaves no trace.
class NewFile {
 public:
  /// @throws std::runtime_error  the folder is missing or not writable, or `path` names a folder or
  /// a device
  explicit NewFile(std::string path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  /// Writes `text` and makes the file appear; what stood under its name is replaced. Once only.
  /// @throws std::runtime_error  e.g. the disk is full
  void commit(std::string_view text);

 private:
  [[noreturn]] void fail(std::string_view action, int code) const;

  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
};

}  // namespace forerun::cli
