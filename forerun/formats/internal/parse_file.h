#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "forerun/base/result.h"
#include "forerun/formats/mapped_file.h"

namespace forerun::internal {

inline Error error_in(const std::filesystem::path& path, std::string_view message) {
  return {fmt::format("{}: {}", path.string(), message)};
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
