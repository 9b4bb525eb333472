#include "forerun/tensor/cpu/rows/row_kernels.h"

namespace forerun::rows {

const Kernels& kernels() {
  static const Kernels* const best = [] {
    if (const Kernels* const k = avx512_kernels()) return k;
    if (const Kernels* const k = avx2_kernels()) return k;
    return generic_kernels();
  }();
  return *best;
}

}  // namespace forerun::rows
