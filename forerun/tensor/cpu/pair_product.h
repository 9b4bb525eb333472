#pragma once

#include "forerun/tensor/cpu/avx512/kernels.h"

namespace forerun {

/// The bf16 product that this processor computes fastest; only where it has AVX-512.
using PairKernel = void (*)(const avx512::PairProduct&);
PairKernel pair_product() noexcept;

}  // namespace forerun
