#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forerun::cli {

/// Now, as "2025-06-14 09:12 UTC".
std::string utc_date();
/// A line on where the threads of a measurement ran, in what share `of` it; "" if it is not known.
std::string common_cache_line(std::optional<double> share, std::string_view of);

}  // namespace forerun::cli
