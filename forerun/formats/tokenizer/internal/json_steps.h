#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "forerun/base/result.h"
#include "forerun/formats/tokenizer/spec.h"

namespace forerun::internal {

/// The normalizer, pre_tokenizer and decoder objects of tokenizer.json (null: no steps).
/// Error: a step that is not supported; names it.
Result<std::vector<NormalizeStep>> normalize_steps(const nlohmann::json& normalizer);
Result<std::vector<SplitStep>> split_steps(const nlohmann::json& pre_tokenizer);

/// Whether decoding drops the first space of a text.
bool drops_first_space(const nlohmann::json& decoder);

}  // namespace forerun::internal
