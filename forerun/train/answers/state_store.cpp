#include "forerun/train/answers/state_store.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "forerun/base/file_lock.h"
#include "forerun/base/hash.h"
#include "forerun/base/result.h"
#include "forerun/base/write_all.h"

namespace forerun {
namespace {

constexpr std::int64_t kGroup = 32, kHeader = 4096;
constexpr std::int64_t kHash = 8;  // bytes of a document's hash; 0: it is not there
constexpr std::string_view kFormat = "forerun states 2\n", kEarlier = "forerun states 1\n";

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

// Or empty, or truncated within the header; or of an earlier version.
bool begins_as_store(int fd) {
  std::string there(kFormat.size(), '\0');
  const ssize_t n = ::pread(fd, there.data(), there.size(), 0);
  if (n < 0) return false;
  const auto begin = std::string_view(there).substr(0, static_cast<std::size_t>(n));
  return kFormat.starts_with(begin) || kEarlier.starts_with(begin);
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
  std::int64_t place = kHeader + kHash * static_cast<std::int64_t>(rows_.size());
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
  fresh.resize(static_cast<std::size_t>(kHeader + kHash * static_cast<std::int64_t>(rows_.size())),
               '\0');
  if (::ftruncate(fd_, 0) == 0 && write_at(fd_, fresh.data(), fresh.size(), 0)) return;
  const int code = errno;
  throw FormatError(fmt::format("{}: cannot be written ({})", path_.string(), std::strerror(code)));
}

StateStore::~StateStore() { ::close(fd_); }

std::int64_t StateStore::row_bytes() const noexcept {
  return groups() * kGroup + groups() * 4 + shape_.last * 2;
}

std::int64_t StateStore::place_of_hash(std::size_t document) const noexcept {
  return kHeader + kHash * static_cast<std::int64_t>(document);
}

// A document as it is in the file.
struct StateStore::Kept {
  at::Tensor values, scales, last;  // [n, groups, 32] int8, [n, groups, 1] float32, [n, width] bf16

  template <class Each>
  bool all(std::int64_t place, const Each& each) const {
    for (const at::Tensor* t : {&values, &scales, &last}) {
      const auto bytes = static_cast<std::size_t>(t->nbytes());
      if (!each(*t, bytes, place)) return false;
      place += static_cast<std::int64_t>(bytes);
    }
    return true;
  }
  std::uint64_t hash() const {
    Hash hash;
    all(0, [&](const at::Tensor& t, std::size_t bytes, std::int64_t) {
      hash.add(std::span(static_cast<const std::byte*>(t.const_data_ptr()), bytes));
      return true;
    });
    return hash.value() == 0 ? 1 : hash.value();
  }
  void read_into(at::Tensor& features, at::Tensor& to_last) const {
    const std::int64_t n = values.size(0);
    features.copy_((values.to(at::kFloat) * scales).view({n, -1}).narrow(1, 0, features.size(1)));
    to_last.copy_(last);
  }
};

StateStore::Kept StateStore::room_for(std::size_t document) const {
  const std::int64_t n = rows_[document];
  return {.values = at::empty({n, groups(), kGroup}, at::kChar),
          .scales = at::empty({n, groups(), 1}, at::kFloat),
          .last = at::empty({n, shape_.last}, at::kBFloat16)};
}

bool StateStore::put(std::size_t document, at::Tensor features, at::Tensor last) {
  const std::int64_t n = rows_[document];
  const at::Tensor groups_of =
      at::constant_pad_nd(features.to(at::kFloat), {0, groups() * kGroup - shape_.features})
          .view({n, groups(), kGroup});
  const at::Tensor scale = groups_of.abs().amax(-1, true).div(127.0);
  const Kept kept{
      .values =
          groups_of.div(scale.clamp_min(1e-30)).round().clamp(-127, 127).to(at::kChar).contiguous(),
      .scales = scale.contiguous(),
      .last = last.to(at::kBFloat16).contiguous()};
  kept.read_into(features, last);
  const bool written =
      kept.all(begin_[document], [&](const at::Tensor& t, std::size_t bytes, std::int64_t place) {
        return write_at(fd_, t.const_data_ptr(), bytes, place);
      });
  const std::uint64_t hash = kept.hash();
  return written && write_at(fd_, &hash, sizeof(hash), place_of_hash(document));
}

bool StateStore::get(std::size_t document, at::Tensor features, at::Tensor last) const {
  std::uint64_t hash = 0;
  if (!read_at(fd_, &hash, sizeof(hash), place_of_hash(document)) || hash == 0) return false;
  const Kept kept = room_for(document);
  const bool there =
      kept.all(begin_[document], [&](const at::Tensor& t, std::size_t bytes, std::int64_t place) {
        return read_at(fd_, t.data_ptr(), bytes, place);
      });
  if (!there || kept.hash() != hash) return false;
  kept.read_into(features, last);
  return true;
}

}  // namespace forerun
