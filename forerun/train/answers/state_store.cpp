#include "forerun/train/answers/state_store.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "forerun/base/file_lock.h"
#include "forerun/base/result.h"
#include "forerun/base/write_all.h"

namespace forerun {
namespace {

constexpr std::int64_t kGroup = 32, kHeader = 4096;
constexpr std::string_view kFormat = "forerun states 1\n";

bool write_at(int fd, const void* data, std::size_t size, std::int64_t place) {
  return write_all(fd, static_cast<std::uint64_t>(place),
                   {static_cast<const std::byte*>(data), size}) == 0;
}

// True if all of it was there; an interrupted call is made again.
bool read_at(int fd, void* data, std::size_t size, std::int64_t place) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::pread(fd, bytes, size, place);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    place += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// With exactly this header: the next byte is a zero.
bool begins_as(int fd, const std::string& header) {
  std::string there(header.size() + 1, '\0');
  return read_at(fd, there.data(), there.size(), 0) && there == header + '\0';
}

// Or empty, or truncated within the header.
bool begins_as_store(int fd) {
  std::string there(kFormat.size(), '\0');
  const ssize_t n = ::pread(fd, there.data(), there.size(), 0);
  return n >= 0 &&
         kFormat.starts_with(std::string_view(there).substr(0, static_cast<std::size_t>(n)));
}

int opened(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd >= 0) return fd;
  throw FormatError(fmt::format("{}: cannot be opened ({}); choose another --state-store",
                                path.string(), std::strerror(errno)));
}

FormatError no_store(const std::filesystem::path& path) {
  return FormatError(fmt::format(
      "{}: not a file of target states, and not overwritten; choose another --state-store",
      path.string()));
}

}  // namespace

void StateStore::expect_usable(const std::filesystem::path& path) {
  const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (made >= 0) {
    ::close(made);
    ::unlink(path.c_str());
    return;
  }
  const int fd = opened(path);
  const bool usable = begins_as_store(fd);
  ::close(fd);
  if (!usable) throw no_store(path);
}

StateStore::StateStore(const std::filesystem::path& path, Shape shape,
                       std::span<const std::int64_t> rows, const std::string& key)
    : path_(path), shape_(shape), rows_(rows.begin(), rows.end()) {
  const std::string header = std::string(kFormat) + key;
  if (header.size() >= kHeader) throw FormatError(path.string() + ": the key is too long");
  flags_ = kHeader;
  std::int64_t place = kHeader + static_cast<std::int64_t>(rows_.size());
  for (const std::int64_t n : rows_) {
    begin_.push_back(place);
    place += n * row_bytes();
  }
  fd_ = opened(path);
  try {
    claim(header);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

// Locked exclusively to reset it, shared to use it: no process resets a file that another reads.
void StateStore::claim(const std::string& header) {
  const auto used_by_other = [&] {
    return FormatError(fmt::format(
        "{}: another run uses it, for another target or other answers; wait for its end, or choose "
        "another --state-store",
        path_.string()));
  };
  const bool alone = lock_alone(fd_) != EWOULDBLOCK;
  if (!alone) lock_shared(fd_);  // the exclusive holder is writing the header: a short wait
  if (!begins_as(fd_, header)) {
    if (!begins_as_store(fd_)) throw no_store(path_);
    if (!alone) throw used_by_other();
    begin(header);
  }
  if (!alone) return;
  lock_shared(fd_);
  // Another process may have come between the two locks.
  if (!begins_as(fd_, header)) throw used_by_other();
}

void StateStore::begin(const std::string& header) {
  std::string fresh = header;
  fresh.resize(static_cast<std::size_t>(kHeader) + rows_.size(), '\0');
  if (::ftruncate(fd_, 0) == 0 && write_at(fd_, fresh.data(), fresh.size(), 0)) return;
  const int code = errno;
  throw FormatError(fmt::format("{}: cannot be written ({})", path_.string(), std::strerror(code)));
}

StateStore::~StateStore() { ::close(fd_); }

std::int64_t StateStore::row_bytes() const noexcept {
  return groups() * kGroup + groups() * 4 + shape_.last * 2;
}

bool StateStore::has(std::size_t document) const {
  char kept = 0;
  return read_at(fd_, &kept, 1, flags_ + static_cast<std::int64_t>(document)) && kept == 1;
}

bool StateStore::put(std::size_t document, const at::Tensor& features, const at::Tensor& last) {
  const std::int64_t n = rows_[document];
  const at::Tensor groups_of =
      at::constant_pad_nd(features.to(at::kFloat), {0, groups() * kGroup - shape_.features})
          .view({n, groups(), kGroup});
  const at::Tensor scale = groups_of.abs().amax(-1, true).div(127.0);
  const at::Tensor values =
      groups_of.div(scale.clamp_min(1e-30)).round().clamp(-127, 127).to(at::kChar).contiguous();
  const at::Tensor scales = scale.contiguous(), tail = last.to(at::kBFloat16).contiguous();
  std::int64_t place = begin_[document];
  for (const at::Tensor* t : {&values, &scales, &tail}) {
    if (!write_at(fd_, t->const_data_ptr(), static_cast<std::size_t>(t->nbytes()), place))
      return false;
    place += static_cast<std::int64_t>(t->nbytes());
  }
  // Last, so that a document is there completely or not at all.
  return write_at(fd_, "\1", 1, flags_ + static_cast<std::int64_t>(document));
}

void StateStore::get(std::size_t document, at::Tensor features, at::Tensor last) const {
  const std::int64_t n = rows_[document];
  const at::Tensor values = at::empty({n, groups(), kGroup}, at::kChar);
  const at::Tensor scales = at::empty({n, groups(), 1}, at::kFloat);
  const at::Tensor tail = at::empty({n, shape_.last}, at::kBFloat16);
  std::int64_t place = begin_[document];
  for (const at::Tensor* t : {&values, &scales, &tail}) {
    if (!read_at(fd_, t->data_ptr(), static_cast<std::size_t>(t->nbytes()), place)) {
      throw FormatError(path_.string() + ": cut short; delete it, it is made again");
    }
    place += static_cast<std::int64_t>(t->nbytes());
  }
  features.copy_((values.to(at::kFloat) * scales).view({n, -1}).narrow(1, 0, shape_.features));
  last.copy_(tail);
}

}  // namespace forerun
