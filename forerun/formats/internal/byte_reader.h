#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "forerun/base/result.h"

namespace forerun::internal {

/// Reads little-endian values one after the other. The first read past the end sets error() and
/// from then on every read gives zeros, so a parser may check once per record instead of after each
/// field.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// @param what  names the field in the error message
  template <class T>
  T read(std::string_view what) {
    T value{};
    const auto raw = take(sizeof(T), what);
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  /// `n` bytes of the file itself; empty after an error.
  std::span<const std::byte> take(std::uint64_t n, std::string_view what) {
    if (error_) return {};
    if (n > remaining()) {
      fail(
          fmt::format("the file ends at byte {} inside {}: at least {} bytes are missing; "
                      "download it again",
                      bytes_.size(), what, n - remaining()));
      return {};
    }
    const auto out = bytes_.subspan(at_, n);
    at_ += n;
    return out;
  }

  /// A string stored as u64 length, then bytes; a view into the file.
  std::string_view string(std::string_view what) {
    const auto raw = take(read<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  void fail(std::string message) {
    if (!error_) error_ = Error{std::move(message)};
  }

  const std::optional<Error>& error() const noexcept { return error_; }
  std::uint64_t position() const noexcept { return at_; }
  std::uint64_t remaining() const noexcept { return error_ ? 0 : bytes_.size() - at_; }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  std::optional<Error> error_;
};

}  // namespace forerun::internal
