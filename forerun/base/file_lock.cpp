#include "forerun/base/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "forerun/base/result.h"

namespace forerun {
namespace {

int lock(int fd, int how) noexcept {
  while (flock(fd, how) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

int lock_alone(int fd) noexcept { return lock(fd, LOCK_EX | LOCK_NB); }
int lock_shared(int fd) noexcept { return lock(fd, LOCK_SH); }

FolderLock::FolderLock(const std::filesystem::path& folder, std::string_view busy)
    : fd_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) {
    throw FormatError(fmt::format("{}: cannot be opened: {}", folder.string(),
                                  std::generic_category().message(errno)));
  }
  if (lock_alone(fd_) != EWOULDBLOCK) return;
  close(fd_);
  throw FormatError(fmt::format("{}: {}", folder.string(), busy));
}

FolderLock::~FolderLock() { close(fd_); }

}  // namespace forerun
