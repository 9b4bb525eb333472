#include "forerun/cli/new_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace forerun::cli {
namespace {

const char* remedy(int code) noexcept {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space";
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

}  // namespace

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  std::error_code unknown;
  const std::filesystem::file_status there = std::filesystem::status(path_, unknown);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    throw std::runtime_error(
        fmt::format("{}: is {}; name a file to write", path_,
                    std::filesystem::is_directory(there) ? "a folder" : "not a regular file"));
  }
  // Exclusive, so that two writers of one path cannot share a temporary file.
  for (int attempt = 0; attempt < 100 && file_ == nullptr; ++attempt) {
    temporary_ = fmt::format("{}.tmp-{}-{}", path_, getpid(), attempt);
    file_ = std::fopen(temporary_.c_str(), "wbx");
    if (file_ == nullptr && errno != EEXIST) break;
  }
  if (file_ == nullptr) fail("cannot be created", errno);
}

NewFile::~NewFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  unlink(temporary_.c_str());
}

void NewFile::commit(std::string_view text) {
  if (file_ == nullptr) throw std::logic_error("NewFile: commit() called twice");
  const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size() &&
                       std::fflush(file_) == 0 && fsync(fileno(file_)) == 0;
  if (!written) fail("cannot be written", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be renamed", errno);
  std::fclose(std::exchange(file_, nullptr));
}

void NewFile::fail(std::string_view action, int code) const {
  throw std::runtime_error(
      fmt::format("{}: {}: {}{}", path_, action, std::strerror(code), remedy(code)));
}

}  // namespace forerun::cli
