#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace forerun::cli {

/// The processor's name as the system tells it; "" where it does not.
std::string cpu_name();
/// Now, as "2025-06-14 09:12 UTC".
std::string utc_date();
/// The options `command` was given, as a command for a shell; defaults are left out.
std::string command_line(const CLI::App& command);

}  // namespace forerun::cli
