#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace forerun {

/// `text` in quotes, safe to show in a terminal: bytes outside printable ASCII become \xNN, and
/// what is longer than `limit` bytes is cut. Names in a file can hold any bytes, so every message
/// uses this.
std::string quote(std::string_view text, std::size_t limit = 80);

}  // namespace forerun
