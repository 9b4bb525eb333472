#pragma once

#include <string>

#include "forerun/common.h"
#include "forerun/core/draft_length_report.h"

namespace forerun::cli {

/// Why a run drafted as far as it did: what passes cost, what was kept, what was chosen.
std::string explain(const DraftLengthReport& report);

}  // namespace forerun::cli
