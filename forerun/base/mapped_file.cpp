#include "forerun/base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "forerun/base/quote.h"

namespace forerun {
namespace {

Error cannot_open(int code) {
  switch (code) {
    case ENOENT:
      return {"no such file; check the path"};
    case EACCES:
      return {"permission denied; make the file and its folders readable"};
    default:
      return {fmt::format("cannot be opened: {}", std::generic_category().message(code))};
  }
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Non-blocking, or opening a pipe would wait for its writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return cannot_open(errno);
  struct stat info {};
  if (fstat(file.fd, &info) != 0) return cannot_open(errno);
  if (S_ISDIR(info.st_mode)) return Error{"is a folder; name a file in it"};
  if (!S_ISREG(info.st_mode)) return Error{"is a pipe or device; copy it to a regular file first"};
  if (info.st_size == 0) return Error{"is empty; download or write it again"};
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > PTRDIFF_MAX) return Error{"is too large for this machine's address space"};
  void* start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (start == MAP_FAILED) {
    return Error{fmt::format("cannot be mapped ({} bytes): {}", size,
                             std::generic_category().message(errno))};
  }
  return MappedFile({static_cast<const std::byte*>(start), static_cast<std::size_t>(size)});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile load_file(const std::filesystem::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    throw FormatError(fmt::format("{}: {}", printable(path.string(), 4096), file.error().message));
  return *std::move(file);
}

}  // namespace forerun
