#include "forerun/api/tidar_options.h"

#include <array>
#include <string_view>

#include "forerun/api/drafter_options.h"

namespace forerun {

TidarArgument parse_tidar(const std::string& argument) {
  constexpr std::string_view kMethod = "tidar";
  constexpr std::array<std::string_view, 2> kKnown = {"block", "beta"};
  TidarArgument out;
  out.folder =
      take_options(kMethod, argument, kKnown, [&](std::string_view name, std::string_view value) {
        if (name == "block") {
          out.block = option_number<std::int64_t>(kMethod, name, value, 2, 256);
        } else {
          out.beta = option_number(kMethod, name, value, 0.0, 1.0);
        }
      });
  return out;
}

}  // namespace forerun
