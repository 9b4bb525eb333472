#include "forerun/base/available_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

namespace forerun {
namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The number that a text begins with, or kUnknown ("max").
std::uint64_t number(std::string_view text) noexcept {
  std::uint64_t out = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), out);
  return end.ec == std::errc() ? out : kUnknown;
}

}  // namespace

namespace {

// What the control group allows, by its second version or its first, whose largest number stands
// for no limit.
std::uint64_t group_limit() {
  const std::uint64_t limit = number(text_of("/sys/fs/cgroup/memory.max"));
  if (limit != kUnknown) return limit;
  const std::uint64_t first = number(text_of("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  return first >= std::uint64_t{1} << 62 ? kUnknown : first;
}

std::uint64_t group_use() {
  const std::uint64_t used = number(text_of("/sys/fs/cgroup/memory.current"));
  if (used != kUnknown) return used;
  const std::uint64_t first = number(text_of("/sys/fs/cgroup/memory/memory.usage_in_bytes"));
  return first == kUnknown ? 0 : first;
}

}  // namespace

std::uint64_t parse_available_memory(std::string_view meminfo) noexcept {
  constexpr std::string_view kName = "MemAvailable:";
  const std::size_t at = meminfo.find(kName);
  if (at == std::string_view::npos) return kUnknown;
  std::string_view rest = meminfo.substr(at + kName.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::uint64_t kilobytes = number(rest);
  return kilobytes > kUnknown / 1024 ? kUnknown : kilobytes * 1024;
}

std::uint64_t whole_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  const std::uint64_t limit = group_limit();
  if (pages <= 0 || page <= 0) return limit == kUnknown ? 0 : limit;
  return std::min(limit, static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page));
}

std::uint64_t available_memory() {
  const std::uint64_t system = parse_available_memory(text_of("/proc/meminfo"));
  const std::uint64_t limit = group_limit();
  if (limit == kUnknown) return system;
  return std::min(system, limit - std::min(limit, group_use()));
}

}  // namespace forerun
