#include "forerun/tensor/cpu/rows/row_loops.h"

namespace forerun::rows {

const Kernels* avx2_kernels() {
  static constexpr Kernels kTable = table("avx2");
#if defined(__AVX2__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kTable : nullptr;
#else
  static_cast<void>(kTable);
  return nullptr;
#endif
}

}  // namespace forerun::rows
