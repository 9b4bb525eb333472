#pragma once

#include <cstddef>

#include "forerun/train/options.h"

namespace forerun::internal {

/// @throws std::invalid_argument  names the first option that is out of range
void check(const TrainOptions& options, std::size_t examples, int ranks);

}  // namespace forerun::internal
