#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx512/pair_product.h"

namespace forerun::avx512 {

void pair_product_emulated(const PairProduct& p) { pair_product<EmulatedPairs>(p); }

}  // namespace forerun::avx512

#endif  // __x86_64__
