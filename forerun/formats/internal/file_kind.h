#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace forerun::internal {

/// What a file that is not of the expected format seems to be, with what to do about it, from its
/// first bytes: "looks like a Git LFS pointer; ...". For error messages.
std::string describe_unexpected(std::span<const std::byte> file);

/// Whether the file starts as a safetensors file does: a plausible header length, then '{'.
bool looks_like_safetensors(std::span<const std::byte> file);

}  // namespace forerun::internal
