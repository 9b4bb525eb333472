#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace forerun::internal {

/// Features as float64.
/// @param features  [n, d] floating point, n >= least, d >= 1, all finite
/// @throws std::invalid_argument
at::Tensor checked_features(const at::Tensor& features, std::int64_t least);

}  // namespace forerun::internal
