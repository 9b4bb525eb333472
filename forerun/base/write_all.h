#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace forerun {

/// Writes all of `bytes` at `offset` of an open file, in as many calls as needed.
/// @return  0, or the errno of the call that failed
int write_all(int fd, std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

}  // namespace forerun
