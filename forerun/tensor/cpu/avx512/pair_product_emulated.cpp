#include "forerun/tensor/cpu/avx512/pair_product.h"

namespace forerun::avx512 {

void pair_product_emulated(const PairProduct& p) { pair_product<EmulatedPairs>(p); }

}  // namespace forerun::avx512
