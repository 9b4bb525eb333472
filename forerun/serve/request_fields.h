#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/serve/json.h"

namespace forerun::serve {

/// Fields that requests for texts and images share.

/// @throws ApiError 404  "model" names another one than `id` and `aliases`
void check_model(const Fields& fields, const std::string& id,
                 const std::vector<std::string>& aliases = {});
/// "seed", or one that is drawn and that JavaScript's numbers hold too.
/// @throws ApiError 400  no whole number
std::uint64_t read_seed(const Fields& fields);

}  // namespace forerun::serve
