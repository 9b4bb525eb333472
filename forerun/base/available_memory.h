#pragma once

#include <cstdint>
#include <string_view>

namespace forerun {

/// Bytes that this process may still take without others being driven out: what the system counts
/// as available, within the limit of the control group. The largest number where neither is known.
std::uint64_t available_memory();

/// Bytes of memory that the machine has, or that the control group allows. 0 where neither is
/// known.
std::uint64_t whole_memory();

/// "MemAvailable" of a text as /proc/meminfo has it, in bytes; the largest number if it is not
/// there.
std::uint64_t parse_available_memory(std::string_view meminfo) noexcept;

}  // namespace forerun
