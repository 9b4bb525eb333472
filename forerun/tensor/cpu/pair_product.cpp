#include "forerun/tensor/cpu/pair_product.h"

#include "forerun/tensor/cpu/cpu_features.h"

namespace forerun {

PairKernel pair_product() noexcept {
  return cpu_features().fast_bf16 ? &avx512::pair_product_native : &avx512::pair_product_emulated;
}

}  // namespace forerun
