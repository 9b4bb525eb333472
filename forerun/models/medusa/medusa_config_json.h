#pragma once

#include <nlohmann/json_fwd.hpp>

#include "forerun/base/result.h"
#include "forerun/models/medusa/medusa_config.h"

namespace forerun {

/// From the config.json of a folder that forerun train medusa wrote.
/// @param target_layers  blocks of the target
/// Errors: another kind of file, a missing or mistyped field, sizes that cannot be, another number
/// of target layers, feature layers outside the target.
Result<MedusaConfig> parse_medusa_config(const nlohmann::json& config, std::int64_t target_layers);

/// Whether an object of a config.json is that of such heads.
bool describes_medusa(const nlohmann::json& config);

/// The config.json of heads.
nlohmann::json medusa_config_json(const MedusaConfig& config);

}  // namespace forerun
