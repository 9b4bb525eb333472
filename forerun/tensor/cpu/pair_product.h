#pragma once

#include "forerun/tensor/cpu/avx512/kernels.h"

namespace forerun {

/// The fastest bf16 product of this processor; requires AVX-512.
using PairKernel = void (*)(const avx512::PairProduct&);
PairKernel pair_product() noexcept;

}  // namespace forerun
