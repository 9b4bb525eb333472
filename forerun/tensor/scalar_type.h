#pragma once

#include <ATen/core/ScalarType.h>

#include "forerun/tensor/precision.h"

namespace forerun {

constexpr at::ScalarType scalar_type(Precision p) noexcept {
  return p == Precision::kF32 ? at::kFloat : at::kBFloat16;
}

}  // namespace forerun
