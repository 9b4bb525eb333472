#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace forerun {

/// `text` in quotes, safe to show in a terminal: bytes outside printable ASCII become \xNN, and
/// what is longer than `limit` bytes is cut. Names in a file are anything, so every message goes
/// through this.
std::string quote(std::string_view text, std::size_t limit = 80);

}  // namespace forerun
