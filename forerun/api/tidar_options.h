#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace forerun {

/// What `tidar:FOLDER[:OPTION=VALUE...]` says.
struct TidarArgument {
  std::string folder;                 ///< or "self"
  std::optional<std::int64_t> block;  ///< as in the config: rows or tokens of a block
  std::optional<double> beta;         ///< in [0, 1]; below 1 another law than the target's
};

/// @throws UsageError  an option twice, or a value that it does not take
TidarArgument parse_tidar(const std::string& argument);

}  // namespace forerun
