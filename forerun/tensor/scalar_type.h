#pragma once

#include <ATen/core/ScalarType.h>

#include "forerun/tensor/precision.h"

namespace forerun {

/// The storage type of a model's tensors; the int8 engine packs its weights from float32, and
/// matrices in the form of a file are no tensors.
constexpr at::ScalarType scalar_type(Precision p) noexcept {
  return p == Precision::kBF16 ? at::kBFloat16 : at::kFloat;
}

}  // namespace forerun
