#if defined(__x86_64__)

#include "forerun/tensor/cpu/kernels/avx512/pair_product.h"

namespace forerun::avx512 {
namespace {

struct NativePairs {
  using Operand = __m512i;
  static constexpr int kMostRows = 6;  // 24 sums, 4 inputs and a broadcast pair in 32 registers
  static Operand load(__m512i pair) { return pair; }
  static __m512 add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

}  // namespace

void pair_product_native(const PairProduct& p) { pair_product<NativePairs>(p); }

}  // namespace forerun::avx512

#endif  // __x86_64__
