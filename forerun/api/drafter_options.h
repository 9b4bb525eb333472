#pragma once

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "forerun/common.h"

namespace forerun {

/// Takes the options of a drafter from the end of `PATH[:OPTION=VALUE...]`; a path may hold colons.
/// @param method  the drafter's name, for messages
/// @param known   the options that there are
/// @param set     called with each that is given, its value "" without an equals sign
/// @return        the path
/// @throws UsageError  an option that is given twice, or that there is not: the path alone exists,
///                     or is "self"
std::string take_options(
    std::string_view method, const std::string& argument, std::span<const std::string_view> known,
    const std::function<void(std::string_view name, std::string_view value)>& set);

/// @throws UsageError
[[noreturn]] void refuse_option(std::string_view method, std::string_view name,
                                std::string_view value, std::string_view takes);

/// @throws UsageError  the value is no number from `least` to `most`
template <class Number>
Number option_number(std::string_view method, std::string_view name, std::string_view value,
                     Number least, Number most) {
  Number out{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error == std::errc() && end == value.data() + value.size() && out >= least && out <= most) {
    return out;
  }
  refuse_option(method, name, value, fmt::format("a number from {} to {}", least, most));
}

}  // namespace forerun
