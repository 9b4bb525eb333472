#pragma once

#include <cstdint>

#include "forerun/models/dit/dit.h"

namespace forerun {

/// A network initialised as in facebookresearch/DiT: Xavier-uniform products, zero biases, tables
/// and time products normal with 0.02, modulations and the last product zero (so every block is the
/// identity at first and the output is zero).
/// @throws std::invalid_argument  invalid sizes
Dit random_dit(const DitConfig& config, std::uint64_t seed);

/// For other networks made of the same parts.
Linear xavier_linear(std::int64_t out, std::int64_t in, at::Generator generator);
DitBlock random_block(const DitConfig& config, at::Generator generator);

}  // namespace forerun
