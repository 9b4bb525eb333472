#include "forerun/api/tidar_options.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "forerun/common.h"

namespace forerun {
namespace {

template <class Number>
Number number(std::string_view name, std::string_view value, Number least, Number most) {
  Number out{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error == std::errc() && end == value.data() + value.size() && out >= least && out <= most) {
    return out;
  }
  throw UsageError(fmt::format("tidar: '{}={}' is not possible; {} takes a number from {} to {}",
                               name, value, name, least, most));
}

template <class Number>
void set(std::optional<Number>& option, std::string_view name, Number value) {
  if (option) throw UsageError(fmt::format("tidar: '{}' is given twice: give it once", name));
  option = value;
}

}  // namespace

TidarArgument parse_tidar(const std::string& argument) {
  TidarArgument out;
  std::string_view rest = argument;
  // From the end: a path may hold a colon.
  for (std::size_t colon; (colon = rest.rfind(':')) != std::string_view::npos;) {
    const std::string_view piece = rest.substr(colon + 1);
    const std::size_t equals = piece.find('=');
    const std::string_view name = piece.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : piece.substr(equals + 1);
    if (name == "block") {
      set(out.block, name, number<std::int64_t>(name, value, 2, 256));
    } else if (name == "beta") {
      set(out.beta, name, number(name, value, 0.0, 1.0));
    } else {
      break;
    }
    rest = rest.substr(0, colon);
  }
  out.folder = std::string(rest);
  return out;
}

}  // namespace forerun
