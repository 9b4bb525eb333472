#pragma once

#include <string_view>

namespace forerun {

/// What Python's str.strip() takes for white space.
bool is_python_space(char32_t code) noexcept;

/// The text without white space at its beginning, or its end, as Python's lstrip and rstrip.
std::string_view python_lstripped(std::string_view text) noexcept;
std::string_view python_rstripped(std::string_view text) noexcept;

}  // namespace forerun
