#pragma once

#include <filesystem>
#include <string_view>

namespace forerun {

/// Advisory locks (flock): they bind processes that ask for them, and go with the descriptor or its
/// process, however that ends.

/// Locks an open file for this descriptor alone, or says at once that it cannot.
/// @return  0; EWOULDBLOCK where another holds it; another errno, e.g. of a file system without
/// locks
int lock_alone(int fd) noexcept;

/// Locks it together with others that share it, giving up a lock of its own; waits for one that
/// holds it alone.
/// @return  0, or the errno
int lock_shared(int fd) noexcept;

/// Holds a folder alone as long as it lives; leaves nothing in it.
class FolderLock {
 public:
  /// A file system without locks is taken for free.
  /// @param busy  what is said where another process holds it, behind the path
  /// @throws FormatError  that, or the folder cannot be opened
  FolderLock(const std::filesystem::path& folder, std::string_view busy);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int fd_ = -1;
};

}  // namespace forerun
