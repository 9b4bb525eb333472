#include "forerun/train/train_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "forerun/base/file_lock.h"
#include "forerun/base/result.h"
#include "forerun/base/write_all.h"

namespace forerun {

TrainLog::TrainLog(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot be opened for writing", errno);
  if (const int code = lock_alone(fd_)) {
    close(fd_);
    if (code != EWOULDBLOCK) fail("cannot be locked", code);
    throw FormatError(fmt::format(
        "{}: another process trains into this folder; wait for its end, or choose another folder",
        path_.string()));
  }
  size_ = static_cast<std::uint64_t>(std::max<off_t>(lseek(fd_, 0, SEEK_END), 0));
}

TrainLog::~TrainLog() { close(fd_); }

void TrainLog::keep_first(std::uint64_t bytes) {
  size_ = std::min(size_, bytes);
  for (char last = 0; size_ > 0; --size_) {
    if (pread(fd_, &last, 1, static_cast<off_t>(size_ - 1)) != 1) fail("cannot be read", errno);
    if (last == '\n') break;
  }
  if (ftruncate(fd_, static_cast<off_t>(size_)) != 0) fail("cannot be cut", errno);
}

void TrainLog::append(const nlohmann::ordered_json& line) {
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (const int code = write_all(fd_, size_, std::as_bytes(std::span(text)))) {
    fail("writing failed", code);
  }
  size_ += text.size();
}

void TrainLog::sync() {
  if (fdatasync(fd_) != 0) fail("cannot be flushed to disk", errno);
}

void TrainLog::fail(std::string_view action, int code) const {
  const char* remedy = code == ENOSPC || code == EDQUOT || code == EFBIG
                           ? "free some space; the last checkpoint stands"
                           : "choose a folder that can be written";
  throw FormatError(fmt::format("{}: {}: {}; {}", path_.string(), action,
                                std::generic_category().message(code), remedy));
}

}  // namespace forerun
