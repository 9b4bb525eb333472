#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "forerun/base/result.h"

namespace forerun::internal {

bool is_gzip(std::span<const std::byte> file) noexcept;

/// Unpacks gzip data piece by piece, so that what a file claims to hold costs no memory before it
/// is there. Source: RFC 1952; members one behind the other count as one stream.
class GzipReader {
 public:
  explicit GzipReader(std::span<const std::byte> file);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// The next `limit` bytes; fewer only where the stream ends, and then its checksum was right.
  /// Error: truncated, damaged, or followed by something else. Nothing can be read after.
  Result<std::vector<std::uint8_t>> read(std::size_t limit);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace forerun::internal
