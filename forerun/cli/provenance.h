#pragma once

#include <string>

namespace forerun::cli {

/// Now, as "2025-06-14 09:12 UTC".
std::string utc_date();

}  // namespace forerun::cli
