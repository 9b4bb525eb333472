#pragma once

#include <cstdint>

#include "forerun/models/mar/mar.h"

namespace forerun {

/// A network of random weights as LTH14/mar begins: Xavier matrices, tables of spread 0.02; what
/// modulates the head, and the head's last layer, are 0.
/// @throws std::invalid_argument  as check_mar_config
Mar random_mar(const MarConfig& config, std::uint64_t seed);

}  // namespace forerun
