#include "forerun/base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "forerun/base/write_all.h"

namespace forerun {
namespace {

const char* remedy(int code) noexcept {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space and write it again";
    case EFBIG:
      return "; raise the limit on file sizes (ulimit -f), or use another file system";
    case ENOENT:
    case ENOTDIR:
      return "; create the folder first";
    case EACCES:
    case EROFS:
      return "; choose a folder that can be written";
    default:
      return "";
  }
}

// Names of temporary files, for a signal handler, which may not wait for a lock. Of more at a time
// than there are places the last stay without.
std::array<std::atomic<const char*>, 32> unfinished{};  // NOLINT: nothing else reaches a handler

void change(const char* from, const char* to) noexcept {
  for (auto& place : unfinished) {
    const char* expected = from;
    if (place.compare_exchange_strong(expected, to)) return;
  }
}

// Makes the new name survive a power cut. If this fails, the file itself is still complete.
void flush_folder(const std::filesystem::path& file) noexcept {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  struct stat info {};
  if (stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    throw FormatError(fmt::format("{}: is {}; name a file to write", path_.string(),
                                  S_ISDIR(info.st_mode) ? "a folder" : "not a regular file"));
  }
  // Exclusive, so that two writers of one path cannot share a temporary file.
  for (int attempt = 0; attempt < 100 && fd_ < 0; ++attempt) {
    temporary_ = fmt::format("{}.tmp-{}-{}", path_.string(), getpid(), attempt);
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) fail("cannot be created", errno);
  change(nullptr, temporary_.c_str());
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  unlink(temporary_.c_str());
  end();
}

void AtomicFile::end() noexcept {
  change(temporary_.c_str(), nullptr);
  close(std::exchange(fd_, -1));
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  overwrite(size_, bytes);
  size_ += bytes.size();
}

void AtomicFile::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (fd_ < 0) throw std::logic_error("AtomicFile: written after commit()");
  if (const int code = write_all(fd_, offset, bytes); code != 0) {
    fail(fmt::format("writing failed after {} bytes", offset), code);
  }
}

void AtomicFile::commit() {
  if (fd_ < 0) throw std::logic_error("AtomicFile: commit() called twice");
  if (fsync(fd_) != 0) fail("cannot be flushed to disk", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be renamed", errno);
  end();
  flush_folder(path_);
}

void AtomicFile::fail(std::string_view action, int code) const {
  throw FormatError(fmt::format("{}: {}: {}{}", path_.string(), action,
                                std::generic_category().message(code), remedy(code)));
}

void AtomicFile::commit(std::string_view text) {
  append(std::as_bytes(std::span(text)));
  commit();
}

void remove_unfinished_files() noexcept {
  for (const auto& place : unfinished) {
    if (const char* const name = place.load()) unlink(name);
  }
}

}  // namespace forerun
