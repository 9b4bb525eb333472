#pragma once

#include <filesystem>
#include <string_view>

namespace forerun {

/// Advisory locks (flock): they only affect processes that use them, and end with the descriptor or
/// its process.

/// Locks an open file exclusively for this descriptor, or returns at once.
/// @return  0; EWOULDBLOCK if another holds it; another errno, e.g. of a file system without locks
int lock_alone(int fd) noexcept;

/// Locks it shared, releasing an exclusive lock of its own; waits while another holds it
/// exclusively.
/// @return  0, or the errno
int lock_shared(int fd) noexcept;

/// Holds a folder exclusively for the lifetime of the object; leaves nothing in it.
class FolderLock {
 public:
  /// A file system without locks counts as free.
  /// @param busy  end of the message, after the path, if another process holds it
  /// @throws FormatError  that, or the folder cannot be opened
  FolderLock(const std::filesystem::path& folder, std::string_view busy);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int fd_ = -1;
};

}  // namespace forerun
