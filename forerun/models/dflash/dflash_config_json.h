#pragma once

#include <nlohmann/json_fwd.hpp>

#include "forerun/base/result.h"
#include "forerun/models/dflash/dflash_config.h"

namespace forerun {

/// From the config.json of a z-lab checkpoint, a vllm-project/speculators one (DFlash, DFlash 2 or
/// DSpark), or one of ours, told apart by their keys. Feature layers come out zero-based, by
/// default by the rule of the format.
/// @param target_layers  blocks of the target, which speculators' files lack
/// Errors: another kind of file or network, a missing or mistyped field, another number of
/// target layers, feature layers outside the target.
Result<DFlashConfig> parse_dflash_config(const nlohmann::json& config, std::int64_t target_layers);

/// Whether an object of a config.json is that of such a network, or of another kind that
/// speculators writes, which parse_dflash_config refuses.
bool describes_dflash(const nlohmann::json& config);

/// The config.json of a network in z-lab's keys; keys that z-lab lacks are in dflash_config under
/// speculators' names.
/// @throws std::invalid_argument  layers with attention that no published file can describe
nlohmann::json dflash_config_json(const DFlashConfig& config);

}  // namespace forerun
