#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace forerun {

/// `text` made safe to show in a terminal: control and invisible characters and bytes that are not
/// UTF-8 become \xNN, and what is longer than `limit` bytes is cut. Names in a file can hold any
/// bytes, so every message shows them through this or quote.
std::string printable(std::string_view text, std::size_t limit = 200);

/// The same in quotes.
std::string quote(std::string_view text, std::size_t limit = 80);

}  // namespace forerun
