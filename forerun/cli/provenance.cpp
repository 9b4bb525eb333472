#include "forerun/cli/provenance.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace forerun::cli {

std::string utc_date() {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
}

std::string common_cache_line(std::optional<double> share, std::string_view of) {
  if (!share) return "";
  return fmt::format("threads on cores with a common cache in {:.0f}% of the {}\n", 100.0 * *share,
                     of);
}

}  // namespace forerun::cli
