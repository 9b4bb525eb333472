#include "forerun/tensor/cpu/rows/row_loops.h"

namespace forerun::rows {

const Kernels* avx512_kernels() {
  static constexpr Kernels kTable = table("avx512");
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") ? &kTable
                                                                                 : nullptr;
#else
  static_cast<void>(kTable);
  return nullptr;
#endif
}

}  // namespace forerun::rows
