#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "forerun/base/mapped_file.h"
#include "forerun/base/quote.h"
#include "forerun/base/result.h"

namespace forerun::internal {

inline Error error_in(const std::filesystem::path& path, std::string_view message) {
  return {fmt::format("{}: {}", printable(path.string(), 4096), message)};
}

/// What `parse` makes of the bytes of the file at `path`. Error: the path, then the reason.
template <class T>
Result<T> parse_file(const std::filesystem::path& path,
                     Result<T> (*parse)(std::span<const std::byte>)) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file) return error_in(path, file.error().message);
  Result<T> out = parse(file->bytes());
  if (!out) return error_in(path, out.error().message);
  return out;
}

}  // namespace forerun::internal
