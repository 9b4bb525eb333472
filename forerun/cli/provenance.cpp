#include "forerun/cli/provenance.h"

#include <fmt/chrono.h>

#include <ctime>

namespace forerun::cli {

std::string utc_date() {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
}

}  // namespace forerun::cli
