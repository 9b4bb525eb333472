#include "forerun/base/write_all.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace forerun {

int write_all(int fd, std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kMostPerCall = std::size_t{1} << 30;  // below Linux's limit per call
  while (!bytes.empty()) {
    const ssize_t n =
        pwrite(fd, bytes.data(), std::min(bytes.size(), kMostPerCall), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (n == 0) return EIO;  // A regular file accepts at least a byte or returns an error.
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace forerun
