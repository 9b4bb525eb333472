#pragma once

#include <string>

#include "forerun/cli/report/document.h"

namespace forerun::cli::report {

/// The finding in one sentence, not escaped: "1.24 times the speed of plain decoding, with lookup".
std::string headline(const Report& report);
/// Whether drafting changed what was generated, in HTML.
std::string verdict(const Report& report);
/// A row a drafter, in HTML.
std::string summary_table(const Report& report);
/// Where texts part from plain decoding's, in HTML; "" if nowhere.
std::string differences(const Report& report);

}  // namespace forerun::cli::report
