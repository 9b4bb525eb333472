#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace forerun {

/// Settings that a folder was begun with, a JSON object in a file: what is there may be added to
/// under the same settings alone.

/// Nothing where there is no such file.
/// @throws FormatError  path, then why it holds no settings
std::optional<nlohmann::json> load_settings(const std::filesystem::path& file);

/// @throws FormatError  as AtomicFile
void save_settings(const std::filesystem::path& file, const nlohmann::json& settings);

/// "NAME = STORED, not WANTED" for the first of `wanted` that `stored` has otherwise, or lacks;
/// empty where there is none. Safe to show.
std::string settings_difference(const nlohmann::json& stored, const nlohmann::json& wanted);

}  // namespace forerun
